"""Texts of the requirements R1-R63, for reports (docs/requirements.yaml; packaged with the wheel)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import orjson
import yaml

from conformance.errors import ConfigurationError

_PACKAGED = Path(__file__).parent / "requirements.yaml"
_IN_TREE = Path(__file__).parent.parent / "docs" / "requirements.yaml"


@cache
def requirement_rows() -> tuple[dict[str, str], ...]:
    """Every requirement in order: id, status (must, decided, open, process), section and text."""
    path = _PACKAGED if _PACKAGED.exists() else _IN_TREE
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple({key: str(value) for key, value in row.items()} for row in document["requirements"])


def requirement_lines(
    names: Sequence[str], claims: Mapping[str, int], *, as_json: bool = False
) -> Iterator[str]:
    """Each requirement with its status, its section of evaluation.md, the scenarios that speak for it, and its text.

    Args:
        names: only these, in their order; none: all.
        claims: how many scenarios list each, by id.
    Raises ConfigurationError: a name that is none.
    """
    rows = {row["id"]: row for row in requirement_rows()}
    for name in names:
        if name not in rows:
            raise ConfigurationError(f"requirement {name!r}: unknown; known: R1 to R{len(rows)}")
    chosen = [rows[name] for name in names] if names else list(rows.values())
    if as_json:
        told = [{**row, "scenarios": claims.get(row["id"], 0)} for row in chosen]
        yield orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()
        return
    for row in chosen:
        head = f"{row['id']:<4} {row['status']:<8} {claims.get(row['id'], 0):>3} scenario(s)  "
        yield from textwrap.wrap(row["text"], 120, initial_indent=head, subsequent_indent=" " * len(head))


def requirement_texts() -> dict[str, str]:
    """Text of each requirement by its id, such as `R13`."""
    return {row["id"]: row["text"] for row in requirement_rows()}
