"""What `duplex-eval` prints when a run has ended: reasons, the closing table, what JSON has beside the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from client.cli_judge import accuracy_rows, print_unscored, verdict_rows
from client.cli_options import complain, print_rows

if TYPE_CHECKING:
    from client.dataset import Dataset
    from client.judge.evaluation import EvaluationResult
    from client.run_result import RunResult
    from client.summary import Verdict


def print_run(
    result: RunResult, judged: EvaluationResult | None, verdicts: Sequence[Verdict], refused: int
) -> None:
    """The closing table, under each failed sample's reason."""
    from client.progress import summary_rows

    print_failures(result)
    if judged is not None:
        print_unscored(judged)
    for error in result.artifact_errors:
        typer.echo(f"not written: {error}")
    rows = summary_rows(result, refused)
    rows += latency_rows(result)
    if result.accuracy is not None:
        rows += accuracy_rows(result.accuracy)
    rows += verdict_rows(verdicts)
    rows.append(("drain padding", "on: silence is sent after the final commit until the replies have ended"))
    print_rows(rows)


def print_failures(result: RunResult) -> None:
    """The reason of each failed sample, in full, but for what the command ends with as its error anyway."""
    from client.progress import ending, reason

    for record in result.samples:
        if record.outcome != "failed" or (result.stopped and reason(record.error) in result.stopped):
            continue
        if not result.nothing_prepared:
            typer.echo(ending(record))


def tell_bad_media(result: RunResult) -> None:
    """Why no sample could be prepared: each reason once, with the samples it holds for."""
    from client.progress import reason

    named: dict[str, list[str]] = {}
    for record in result.samples:
        named.setdefault(reason(record.error), []).append(f"{record.split}/{record.id}")
    for told, samples in named.items():
        complain(f"error: {', '.join(samples[:5])}{', ...' if len(samples) > 5 else ''}: {told}")


def latency_rows(result: RunResult) -> list[tuple[str, str]]:
    """Stream and response latencies, as far as they were measured."""
    told = result.to_json()
    rows = []
    for name in ("duplex_stream_ttft_ms", "duplex_stream_ttfp_ms"):
        figures = told[name]
        if figures is not None:
            text = f"mean {figures['mean']:.0f}, median {figures['p50']:.0f}, p99 {figures['p99']:.0f} ms"
            rows.append((name.removesuffix("_ms").replace("_", " "), text))
    return rows


def refused_rows(chosen: Dataset) -> list[dict[str, Any]]:
    """Rows of the dataset that could not be used, for JSON."""
    return [{"split": r.split, "id": r.id, "where": r.where, "reason": r.reason} for r in chosen.refused]


def tell_stage(step: str, fields: Mapping[str, Any]) -> None:
    """An observer that prints each phase of each session."""
    if step == "phase":
        complain(f"{fields['split']}/{fields['id']} attempt {fields['attempt']}: {fields['name']}")
