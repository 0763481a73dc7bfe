"""Texts of the requirements R1-R63, for reports (docs/requirements.yaml; packaged with the wheel)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

_PACKAGED = Path(__file__).parent / "requirements.yaml"
_IN_TREE = Path(__file__).parent.parent / "docs" / "requirements.yaml"


@cache
def requirement_texts() -> dict[str, str]:
    """Text of each requirement by its id, such as `R13`."""
    path = _PACKAGED if _PACKAGED.exists() else _IN_TREE
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    rows = document["requirements"] if isinstance(document, dict) else document
    return {str(row["id"]): str(row["text"]) for row in rows}
