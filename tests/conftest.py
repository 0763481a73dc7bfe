"""Fixtures of the whole suite."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

# A shell that starts the suite in the background leaves SIGINT ignored, and tests of Ctrl-C would wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of handed data beside the project; skips where it is absent."""
    folder = PROJECT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the handed data folder (shared/data beside the project) is not here")
    return folder
