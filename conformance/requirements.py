"""Texts of the requirements R1-R63, for reports (docs/requirements.yaml; packaged with the wheel)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

_PACKAGED = Path(__file__).parent / "requirements.yaml"
_IN_TREE = Path(__file__).parent.parent / "docs" / "requirements.yaml"


@cache
def requirement_rows() -> tuple[dict[str, str], ...]:
    """Every requirement in order: id, status (must, decided, open, process), section and text."""
    path = _PACKAGED if _PACKAGED.exists() else _IN_TREE
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple({key: str(value) for key, value in row.items()} for row in document["requirements"])


def requirement_texts() -> dict[str, str]:
    """Text of each requirement by its id, such as `R13`."""
    return {row["id"]: row["text"] for row in requirement_rows()}
