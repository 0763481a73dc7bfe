"""`duplex-eval evaluate` and `summarize`: answers to scores, scores to means (evaluation.md 21)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from client.cli_options import (
    BAD_INPUT,
    FAILED,
    OK,
    SERVER_AWAY,
    DatasetOption,
    ExcludeOption,
    Family,
    FamilyOption,
    FloorsOption,
    FrameLimitOption,
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
    LateOption,
    LimitOption,
    MediaRootOption,
    ModalitiesOption,
    Overflow,
    OverflowOption,
    SplitOption,
    VideoMode,
    VideoModeOption,
    WindowOption,
    WorkersOption,
    complain,
    judge_settings,
    load_samples,
    print_json,
    print_rows,
    progress_of,
    refuse,
)
from client.escaping import escaped
from client.interrupt import INTERRUPTED, run_until_ended

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from client.clips import FrameStore
    from client.dataset import Dataset
    from client.judge.evaluation import EvaluationResult, EvaluationSettings
    from client.summary import Verdict


def evaluate(
    dataset: DatasetOption,
    response_root: Annotated[Path, typer.Option(help="Folder with the answers.")],
    score_root: Annotated[Path, typer.Option(help="Folder for scores and traces; judged samples are kept.")],
    judge_model: JudgeModelOption,
    judge_base_url: JudgeUrlOption = "http://127.0.0.1:8000",
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
    overwrite: Annotated[bool, typer.Option(help="Judge judged samples again.")] = False,
    floors: FloorsOption = None,
    split: SplitOption = "all",
    family: FamilyOption = Family.ALL,
    ids: IdsOption = None,
    exclude_ids: ExcludeOption = None,
    limit: LimitOption = None,
    media_root: MediaRootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the answers in a response root and keep scores and traces in a score root."""
    from client.clips import FrameStore
    from client.dataset import DatasetError
    from client.judge.evaluation import EvaluationError, EvaluationSettings
    from client.response_root import RunError
    from client.summary import ScoreError, read_floors

    try:
        wanted = read_floors(floors or [])
        settings = EvaluationSettings(
            judge_settings(
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
            ),
            response_root,
            score_root,
            workers=eval_workers,
            overwrite=overwrite,
            allow_invalid_clock=allow_invalid_clock,
            count_late=judge_late,
        )
        if not response_root.is_dir():
            refuse(f"--response-root: {response_root}: no such folder; allowed: a folder with answers")
        chosen = load_samples(
            dataset,
            split=split,
            family=family,
            ids=ids,
            exclude_ids=exclude_ids,
            limit=limit,
            media_root=media_root,
            require_media=False,
        )
        result, ended_by = judge_all(chosen, settings, FrameStore(), as_json)
        raise typer.Exit(_tell(result, ended_by, wanted, as_json))
    except (DatasetError, EvaluationError, RunError, ScoreError) as error:
        refuse(str(error))
    except KeyboardInterrupt:
        complain("interrupted before a sample was judged")
        raise typer.Exit(INTERRUPTED) from None


def judge_all(
    chosen: Dataset, settings: EvaluationSettings, store: FrameStore, as_json: bool
) -> tuple[EvaluationResult, int]:
    """Judge every sample chosen. Returns the result, and the exit code of an interruption or 0.

    Raises EvaluationError, RunError: nothing was asked.
    """
    from client.judge.evaluation import Evaluation
    from client.judge.subject import subject_of

    subjects = [subject_of(sample, settings.response_root, store) for sample in chosen.samples]
    with progress_of(len(subjects), as_json, "judged") as progress:
        evaluation = Evaluation(subjects, settings, progress=progress)
        ended_by = run_until_ended(evaluation.run)
    return evaluation.result, ended_by


def _tell(result: EvaluationResult, ended_by: int, floors: Mapping[str, float], as_json: bool) -> int:
    """Print what came of an evaluation. Returns the exit code."""
    from client.summary import floor_verdicts

    accuracy = result.accuracy()
    verdicts = floor_verdicts(accuracy, floors)
    if as_json:
        print_json({**accuracy, "verdicts": [verdict.to_json() for verdict in verdicts]})
    else:
        print_unscored(result)
        print_rows([*accuracy_rows(accuracy), *verdict_rows(verdicts)])
    if ended_by:
        complain("interrupted; the same command goes on where this one ended")
        return ended_by
    if result.stopped:
        complain(f"error: {result.stopped}")
        return SERVER_AWAY if result.away else BAD_INPUT
    failed = accuracy["status"] != "completed" or not all(verdict.passed for verdict in verdicts)
    return FAILED if failed or result.artifact_errors else OK


def print_unscored(result: EvaluationResult) -> None:
    """The reason of each sample that was judged in vain, but for what the command ends with as its error anyway."""
    from client.progress import reason

    for record in result.records:
        told = reason(record.error)
        if record.outcome != "failed" or record.error.startswith("not judged: "):
            continue
        if not (result.stopped and told in result.stopped):
            typer.echo(escaped(f"{record.split}/{record.id} not scored: {told}"))


def summarize(
    score_root: Annotated[Path, typer.Option(help="Folder with score files.")],
    output_json: Annotated[Path | None, typer.Option(help="Write the means to this file too.")] = None,
    floors: FloorsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the means over all score files of a folder. Nothing is asked of the judge."""
    from client.artifacts import write_whole
    from client.summary import ScoreError, floor_verdicts, read_floors, summarize_scores

    try:
        wanted = read_floors(floors or [])
        summary = summarize_scores(score_root)
    except ScoreError as error:
        refuse(str(error))
    verdicts = floor_verdicts(summary, wanted)
    if output_json is not None:
        try:
            write_whole(output_json, summary)
        except OSError as error:
            refuse(f"--output-json: {output_json}: cannot be written ({error.strerror or error})")
    if as_json:
        print_json({**summary, "verdicts": [verdict.to_json() for verdict in verdicts]})
    else:
        print_rows([*accuracy_rows(summary), *verdict_rows(verdicts)])
    raise typer.Exit(OK if all(verdict.passed for verdict in verdicts) else FAILED)


def accuracy_rows(accuracy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Means and counts for people."""
    if "error" in accuracy:
        return [("scored", f"none ({accuracy['status']})")]
    rows: list[tuple[str, str]] = []
    if "total" in accuracy:
        rows.append(
            (
                "scored",
                f"{accuracy['evaluated']} of {accuracy['total']} ({accuracy['status']}; "
                f"{accuracy['failed']} failed, {accuracy['skipped']} without an answer)",
            )
        )
    else:
        rows.append(("scored", str(accuracy["samples"])))
    rows.append(("judge", str(accuracy["judge_model"])))
    for family, keys in (
        ("rtd", ("mean_content_score", "mean_avg_temporal_score")),
        ("pr", ("mean_all_success",)),
    ):
        if family in accuracy:
            told = ", ".join(f"{key} {accuracy[family][key]:.4f}" for key in keys)
            rows.append((family, f"{accuracy[family]['samples']} samples: {told}"))
    return rows + _late_rows(accuracy)


def _late_rows(accuracy: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How many late sentences there were, and the means with and without them (design.md 7)."""
    late = accuracy.get("late_sentences")
    if not late:
        return []
    rows = [("late sentences", f"{late['sentences']} in {late['samples']} samples, not scored")]
    for family in ("rtd", "pr"):
        for key, value in (late.get(f"{family}_with_late") or {}).items():
            rows.append((f"{family} {key}", f"{accuracy[family][key]:.4f} without, {value:.4f} with them"))
    return rows


def verdict_rows(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """Guard and floors for people."""
    return [
        (
            verdict.name,
            f"{'ok' if verdict.passed else 'FAILED'}: {verdict.actual} (wanted {verdict.expected})",
        )
        for verdict in verdicts
    ]
