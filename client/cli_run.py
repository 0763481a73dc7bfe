"""`duplex-eval run`: generate, evaluate and summarize in one folder, gated; and `compare` for two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from client.cli_judge import judge_all
from client.cli_numbers import whole_option
from client.cli_options import (
    BAD_INPUT,
    FAILED,
    OK,
    SERVER_AWAY,
    CaFileOption,
    ConcurrencyOption,
    DatasetOption,
    ExcludeOption,
    Family,
    FamilyOption,
    FloorsOption,
    FpsOption,
    FrameLimitOption,
    Guard,
    IdsOption,
    InvalidClockOption,
    JsonOption,
    JudgeCaFileOption,
    JudgeFpsOption,
    JudgeKeyEnvOption,
    JudgeKeyOption,
    JudgeModelOption,
    JudgeTimeoutOption,
    JudgeUrlOption,
    KeyOption,
    LateOption,
    LimitOption,
    MediaRootOption,
    ModalitiesOption,
    ModelOption,
    Overflow,
    OverflowOption,
    Pace,
    PaceOption,
    RefAudioOption,
    SplitOption,
    TimeoutOption,
    UrlOption,
    VideoMode,
    VideoModeOption,
    WindowOption,
    WorkersOption,
    complain,
    judge_settings,
    listed,
    load_samples,
    print_json,
    progress_of,
    refuse,
    session_settings,
)
from client.cli_tell import print_run, refused_rows, tell_bad_media
from client.interrupt import INTERRUPTED, run_until_ended
from client.planned import PlannedSample

if TYPE_CHECKING:
    from client.clips import FrameStore
    from client.dataset import Dataset
    from client.gates import Gates
    from client.judge.evaluation import EvaluationResult, EvaluationSettings
    from client.judge.settings import JudgeSettings
    from client.run_result import RunResult
    from client.run_settings import RunSettings
    from client.settings import SessionSettings


def run(
    dataset: DatasetOption,
    url: UrlOption,
    model: ModelOption,
    ref_audio: RefAudioOption,
    response_root: Annotated[Path, typer.Option(help="Folder in which this run makes its own, run-NUMBER.")],
    judge_model: JudgeModelOption,
    judge_base_url: JudgeUrlOption = "http://127.0.0.1:8001/v1",
    judge_api_key: JudgeKeyOption = "EMPTY",
    judge_api_key_env: JudgeKeyEnvOption = None,
    judge_ca_file: JudgeCaFileOption = None,
    judge_timeout_s: JudgeTimeoutOption = 600.0,
    judge_video_mode: VideoModeOption = VideoMode.VIDEO_URL,
    judge_fps: JudgeFpsOption = 2.0,
    judge_modalities: ModalitiesOption = None,
    content_frame_limit: FrameLimitOption = 16,
    judge_frame_overflow: OverflowOption = Overflow.ERROR,
    window_size: WindowOption = 10.0,
    allow_invalid_clock: InvalidClockOption = False,
    eval_workers: WorkersOption = 1,
    judge_late: LateOption = True,
    split: SplitOption = "all",
    family: FamilyOption = Family.ALL,
    ids: IdsOption = None,
    exclude_ids: ExcludeOption = None,
    limit: LimitOption = None,
    media_root: MediaRootOption = None,
    fps: FpsOption = 1.0,
    pace: PaceOption = Pace.REALTIME,
    concurrency: ConcurrencyOption = 1,
    readiness: Annotated[
        bool, typer.Option(help="Spend one session first to see that the server is ready.")
    ] = False,
    num_warmups: Annotated[int, whole_option("--num-warmups", "Sessions before the timed window.", 0)] = 0,
    request_timeout_s: TimeoutOption = 900.0,
    api_key_env: KeyOption = None,
    ca_file: CaFileOption = None,
    resume: Annotated[
        str | None,
        typer.Option(help="Go on with an earlier run: its folder's name, or last.", show_default=False),
    ] = None,
    guard: Annotated[Guard, typer.Option(help="What all samples are gated on.")] = Guard.BASIC,
    floors: FloorsOption = None,
    max_retries: Annotated[
        int | None, whole_option("--max-retries", "Most retries before the run fails.", 0)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the samples, judge the answers, and gate the outcome."""
    from client.dataset import DatasetError
    from client.judge.evaluation import EvaluationError
    from client.media import MediaError
    from client.response_root import RunError
    from client.summary import ScoreError, read_floors

    try:
        wanted = read_floors(floors or [])
        judge = judge_settings(
            base_url=judge_base_url,
            model=judge_model,
            api_key=judge_api_key,
            api_key_env=judge_api_key_env,
            timeout_s=judge_timeout_s,
            video_mode=judge_video_mode,
            fps=judge_fps,
            modalities=judge_modalities,
            content_frame_limit=content_frame_limit,
            frame_overflow=judge_frame_overflow,
            window_size_s=window_size,
            ca_file=judge_ca_file,
        )
        if pace is Pace.FAST and not allow_invalid_clock:
            refuse(
                "--pace as-fast-as-possible: answers have no usable times and would not be judged; "
                "allowed: realtime, or --allow-invalid-clock too"
            )
        session = session_settings(
            url=url,
            model=model,
            ref_audio=ref_audio,
            request_timeout_s=request_timeout_s,
            pace=pace,
            fps=fps,
            api_key_env=api_key_env,
            ca_file=ca_file,
        )
        chosen = load_samples(
            dataset,
            split=split,
            family=family,
            ids=ids,
            exclude_ids=exclude_ids,
            limit=limit,
            media_root=media_root,
        )
        whole = WholeRun(chosen, session, judge, wanted, as_json)
        whole.concurrency, whole.readiness, whole.warmups = concurrency, readiness, num_warmups
        whole.workers, whole.judge_late, whole.invalid_clock = eval_workers, judge_late, allow_invalid_clock
        whole.guard, whole.max_retries, whole.excluded = guard, max_retries, listed(exclude_ids)
        raise typer.Exit(whole.run(response_root, resume))
    except (DatasetError, MediaError, RunError, ScoreError, EvaluationError) as error:
        refuse(str(error))
    except KeyboardInterrupt:
        complain("interrupted before a sample was run")
        raise typer.Exit(INTERRUPTED) from None


class WholeRun:
    """One invocation of `run`: sessions, then judging, then the verdicts."""

    concurrency = 1
    readiness = False
    warmups = 0
    workers = 1
    judge_late = True
    invalid_clock = False
    guard = Guard.BASIC
    max_retries: int | None = None
    excluded: Sequence[str] = ()

    def __init__(
        self,
        chosen: Dataset,
        session: SessionSettings,
        judge: JudgeSettings,
        floors: Mapping[str, float],
        as_json: bool,
    ) -> None:
        self.chosen, self.session, self.judge, self.floors, self.as_json = (
            chosen,
            session,
            judge,
            floors,
            as_json,
        )

    def run(self, root: Path, resume: str | None) -> int:
        """Returns: the exit code. Raises RunError, EvaluationError: nothing was spent."""
        from client.clips import FrameStore
        from client.judge.evaluation import EvaluationError
        from client.response_root import RunError, locked, new_run_folder, resumed_folder

        self.check(root)
        with locked(root):
            folder = resumed_folder(root, resume) if resume is not None else new_run_folder(root)
            complain(f"run folder: {folder} (after an interruption: --resume {folder.name})")
            store = FrameStore()
            if resume is not None:
                self.check_scores(folder, store)
            result, ended_by = self.generate(folder, store)
            judged: EvaluationResult | None = None
            if not (ended_by or result.stopped or result.nothing_prepared):
                try:
                    judged, ended_by = self.evaluate(folder, store)
                except (EvaluationError, RunError, OSError) as error:
                    result.accuracy = {"status": "failed", "error": str(error)}
                except Exception as error:
                    # A bug of ours: it surfaces, and what it cost stands in the result (evaluation.md 19).
                    result.accuracy = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
                    result.write(folder)
                    raise
            return self.tell(folder, result, judged, ended_by)

    def check(self, root: Path) -> None:
        """Look at all settings before a folder is made. Raises RunError, EvaluationError."""
        from client.judge.evaluation import Evaluation
        from client.run import Run

        Run([], self.run_settings(root))
        Evaluation([], self.evaluation_settings(root))

    def check_scores(self, folder: Path, store: FrameStore) -> None:
        """Look at the scores an earlier run left, before a session is spent beside them. Raises EvaluationError."""
        from client.judge.evaluation import Evaluation
        from client.judge.subject import subject_of

        subjects = [subject_of(sample, folder, store) for sample in self.chosen.samples]
        Evaluation(subjects, self.evaluation_settings(folder)).take_stock()

    def run_settings(self, folder: Path) -> RunSettings:
        """How the sessions are run."""
        from client.run import RunSettings

        return RunSettings(
            self.session,
            folder,
            self.concurrency,
            readiness=self.readiness,
            warmups=self.warmups,
            stop_when_away=True,
        )

    def evaluation_settings(self, folder: Path) -> EvaluationSettings:
        """How the answers are judged."""
        from client.compare import EVALUATION
        from client.judge.evaluation import EvaluationSettings

        return EvaluationSettings(
            self.judge,
            folder,
            folder / EVALUATION,
            workers=self.workers,
            allow_invalid_clock=self.invalid_clock,
            count_late=self.judge_late,
        )

    def generate(self, folder: Path, store: FrameStore) -> tuple[RunResult, int]:
        """Run the sessions. Returns the result, and the exit code of an interruption or 0."""
        from client.run import Run

        samples = [PlannedSample(sample, self.session.fps, store) for sample in self.chosen.samples]
        with progress_of(len(samples), self.as_json) as progress:
            run = Run(samples, self.run_settings(folder), progress=progress)
            ended_by = run_until_ended(run.run)
        return run.result, ended_by

    def evaluate(self, folder: Path, store: FrameStore) -> tuple[EvaluationResult, int]:
        """Judge what was published, after the timed window."""
        return judge_all(self.chosen, self.evaluation_settings(folder), store, self.as_json)

    def tell(self, folder: Path, result: RunResult, judged: EvaluationResult | None, ended_by: int) -> int:
        """Write the whole result, print it, and say how it ended."""
        from client.gates import gate

        if judged is not None:
            result.accuracy = judged.accuracy()
            result.artifact_errors += judged.artifact_errors
        verdicts = gate(result, self.gates())
        try:
            result.write(folder)
        except OSError as error:
            result.artifact_errors.append(f"run_result.json: {error}")
        if self.as_json:
            print_json({**result.to_json(), "refused": refused_rows(self.chosen)})
        else:
            print_run(result, judged, verdicts, len(self.chosen.refused))
        if ended_by:
            complain(f"interrupted; --resume {folder.name} goes on where this one ended")
            return ended_by
        for stopped, code in (
            (result.stopped, SERVER_AWAY),
            (judged.stopped if judged else "", SERVER_AWAY if judged and judged.away else BAD_INPUT),
            ((result.accuracy or {}).get("error", ""), BAD_INPUT),
        ):
            if stopped:
                complain(f"error: {stopped}")
                return code
        if result.nothing_prepared:
            tell_bad_media(result)
            return BAD_INPUT
        lost = unfinished(result) if self.guard is not Guard.OFF else ""
        if lost:
            complain(f"failed: {lost}")
        return OK if not lost and all(verdict.passed for verdict in verdicts) else FAILED

    def gates(self) -> Gates:
        """What the run is gated on. A refused row is a sample that was asked for and not run."""
        from client.gates import Gates

        return Gates(
            self.guard.value, self.floors, self.max_retries, self.excluded, refused=len(self.chosen.refused)
        )


def unfinished(result: RunResult) -> str:
    """What a run with a guard lost although its requests were successful; empty: nothing (R61).

    The guard itself looks at the requests alone (evaluation.md 19.1).
    """
    accuracy = result.accuracy or {}
    told = []
    if result.artifact_errors:
        told.append(f"{len(result.artifact_errors)} file(s) could not be written")
    if accuracy.get("status", "completed") != "completed":
        told.append(f"{accuracy['evaluated']} of {accuracy['total']} samples were scored")
    return ", ".join(told)


def compare(
    a: Annotated[Path, typer.Argument(help="Folder of a run.")],
    b: Annotated[Path, typer.Argument(help="Folder of another.")],
    as_json: JsonOption = False,
) -> None:
    """Say by sample what differs between two runs: outcome, retries, sentences, scores."""
    from client.compare import CompareError, compare_runs, lines_of

    try:
        found = compare_runs(a, b)
    except CompareError as error:
        refuse(str(error))
    different = [difference for difference in found if difference.is_any]
    if as_json:
        print_json({"samples": len(found), "different": [difference.to_json() for difference in different]})
        return
    for difference in different:
        for line in lines_of(difference):
            typer.echo(line)
    typer.echo(f"{len(different)} of {len(found)} samples differ")
