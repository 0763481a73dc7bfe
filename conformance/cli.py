"""`conformance`: the product's face. Its commands are imported only when one is asked for."""

from __future__ import annotations

import sys


def main() -> None:
    """Console entry point; `--version` answers before anything heavy is imported."""
    if sys.argv[1:] == ["--version"]:
        from conformance import __version__

        print(f"duplex-conformance {__version__}")
        return
    from conformance.commands import app

    app()
