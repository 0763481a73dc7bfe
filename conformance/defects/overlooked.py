"""Defects of our own that the catalogue once passed: found by people who broke the client to see whether it notices."""

from __future__ import annotations

from conformance.defects.model import Defect
from conformance.defects.rewrite import Rewrite

_ANSWER = ("sample.outcome", "sample.response_done", "sample.error", "sample.text")

OVERLOOKED_DEFECTS: tuple[Defect, ...] = (
    Defect(
        name="reply-closed-twice",
        about="closes a reply that a listen has ended once more at its response.done, and waits for a negative rest",
        rewrites=(
            Rewrite(
                "client.session:ClientSession._take_response_done", "response.status == LISTENING", "False"
            ),
            Rewrite(
                "client.session:ClientSession._take_response_done",
                "response.status is not None",
                "response.status not in (None, LISTENING)",
            ),
        ),
        breaks=("R49",),
        findings=_ANSWER,
        first=("reply/listen-then-done[july]",),
    ),
    Defect(
        name="record-outlives-attempt",
        about="goes on in a retry with the record of the attempt that failed",
        rewrites=(
            Rewrite(
                "client.retry:request_sample",
                "output = RequestOutput(prepared.split, prepared.id)",
                """
                output = RequestOutput(prepared.split, prepared.id)
                record = AttemptRecord(prepared.split, prepared.id, 1, observer)
                """,
            ),
            Rewrite(
                "client.retry:request_sample",
                "record = AttemptRecord(prepared.split, prepared.id, attempt, observer)",
                "record.attempt = attempt",
            ),
        ),
        breaks=(),
        findings=("metadata.missed_deadlines",),
        first=("retry/second-attempt-clean",),
        rule="evaluation.md 14",
    ),
    Defect(
        name="finished-reply-unacked",
        about="acks a reply only while it is open, so no closing ack tells its whole length",
        rewrites=(
            Rewrite(
                "client.session:ClientSession.acks", "r.audio_bytes or r.status is None", "r.status is None"
            ),
        ),
        breaks=("R1",),
        findings=("wire.last_acks_ms",),
        first=("ack/closing-ack[july]",),
    ),
    Defect(
        name="rate-assumed",
        about="counts every reply's sound at 24 kHz, whatever its deltas say",
        rewrites=(
            Rewrite(
                "client.responses:ResponseRecord.played_ms",
                "self.audio_bytes * 1000 // (self.rate_hz * 2)",
                "self.audio_bytes * 1000 // (DEFAULT_OUTPUT_RATE_HZ * 2)",
            ),
        ),
        breaks=(),
        findings=("ack-position", "wire.last_acks_ms"),
        first=("ack/closing-ack[48-khz]",),
        rule="evaluation.md 5",
    ),
    Defect(
        name="fraction-is-score",
        about="reads the first number as the score, of whatever it is a part",
        rewrites=(
            Rewrite(
                "client.judge.parsing:pieces_in",
                "_BARE.match(text, place)",
                r"""re.compile('["\']?(?P<number>[+-]?[0-9]+(?:[.][0-9]+)?)').match(text, place)""",
            ),
        ),
        breaks=("R52",),
        findings=("judge.requests", "judge.reasks", "judge.content_score"),
        first=("judge/fraction-in-prose[without-spaces]",),
    ),
    Defect(
        name="score-outlives-answer",
        about="keeps a score though the answer it was given for is another one now",
        rewrites=(
            Rewrite(
                "client.judge.evaluation:Evaluation._still_holds",
                'score.get("answer_sha256") != answer.sha256',
                "False",
            ),
        ),
        breaks=(),
        findings=("judge.requests",),
        first=("resume/answer-changed",),
        rule="evaluation.md 12",
    ),
    Defect(
        name="models-mixed",
        about="resumes beside the answers of another model",
        rewrites=(
            Rewrite(
                "client.response_root:check_same_settings",
                "name in metadata and metadata[name] != ours[name]",
                'name != "model" and name in metadata and metadata[name] != ours[name]',
            ),
        ),
        breaks=(),
        findings=("refused", "wire.connections"),
        first=("resume/other-settings[model]",),
        rule="evaluation.md 12",
    ),
    Defect(
        name="paces-mixed",
        about="resumes beside answers that were sent for at another pace",
        rewrites=(
            Rewrite(
                "client.response_root:check_same_settings",
                "name in metadata and metadata[name] != ours[name]",
                'name != "pace" and name in metadata and metadata[name] != ours[name]',
            ),
        ),
        breaks=(),
        findings=("refused", "wire.connections"),
        first=("resume/other-settings[pace]",),
        rule="evaluation.md 12",
    ),
    Defect(
        name="judges-mixed",
        about="keeps the scores of another judge beside its own",
        rewrites=(
            Rewrite(
                "client.judge.evaluation:Evaluation._still_holds",
                "differing(score, self.settings.judge)",
                "[]",
            ),
        ),
        breaks=(),
        findings=("refused", "judge.requests"),
        first=("resume/other-settings[judge]",),
        rule="evaluation.md 19",
    ),
    Defect(
        name="means-over-splits",
        about="averages the means of the splits instead of the samples",
        rewrites=(
            Rewrite(
                "client.summary:summary_of",
                "_rtd_means(rtd)",
                "{key: mean([part[key] for part in by_split.values()]) for key in _rtd_means(rtd)}",
            ),
        ),
        breaks=(),
        findings=("accuracy.rtd.mean_content_score", "accuracy.rtd.mean_avg_temporal_score"),
        first=("judge/means-over-samples",),
        rule="evaluation.md 19",
    ),
    Defect(
        name="rank-one-off",
        about="takes the value behind the nearest rank",
        rewrites=(
            Rewrite(
                "client.metrics:nearest_rank",
                "math.ceil(share * len(ordered)) - 1",
                "min(len(ordered) - 1, int(share * len(ordered)))",
            ),
        ),
        breaks=(),
        findings=("run.median_e2el_ms",),
        first=("run/nearest-rank",),
        rule="evaluation.md 20",
    ),
    Defect(
        name="result-outlives-attempt",
        about="takes the result of the attempt before for that of one that ended with an exception",
        rewrites=(Rewrite("client.retry:run_attempt", "output.result = None", "pass"),),
        breaks=("R33", "R30", "R21"),
        findings=("sample.error", "sample.outcome", "sample.last_attempt.row"),
        first=("retry/second-attempt-lost",),
    ),
    Defect(
        name="listen-closes-again",
        about="closes a reply that is done once more at a listen that names it",
        rewrites=(
            Rewrite(
                "client.session:ClientSession._take_listen",
                "response is not None and response.status is None",
                "response is not None",
            ),
        ),
        breaks=("R49",),
        findings=_ANSWER,
        first=("reply/listen-then-done[listen-behind]",),
    ),
    Defect(
        name="duration-at-usual-rate",
        about="tells how long replies are as if each had 24000 samples a second",
        rewrites=(Rewrite("client.generate:Attempt.result", "session.output_rate_hz", "24_000"),),
        breaks=(),
        findings=("run.mean_audio_duration_s",),
        first=("ack/closing-ack[48-khz]",),
        rule="evaluation.md 20",
    ),
    Defect(
        name="metadata-is-enough",
        about="takes a sample for finished whose metadata are there and whose answer is not",
        rewrites=(
            Rewrite(
                "client.response_root:finished_metadata",
                'sentences = orjson.loads((root / split / f"{sample_id}.json").read_bytes())',
                "sentences: list[Any] = []",
            ),
        ),
        breaks=("R20", "R30"),
        findings=("sample-conservation", "sample.outcome"),
        first=("resume/answer-changed",),
    ),
)
