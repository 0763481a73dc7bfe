"""A scenario that loads, and does not once a piece of it is another."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.errors import ScenarioError
from scenarios.loader import load_scenario


def refusal(file: Path, text: str, old: str, new: str) -> str:
    """Why `text` with `new` in the place of `old` is refused; as it stands it loads."""
    file.write_text(text)
    load_scenario(file)
    file.write_text(text.replace(old, new))

    with pytest.raises(ScenarioError) as refused:
        load_scenario(file)
    return str(refused.value)
