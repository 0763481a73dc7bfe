"""`conformance`: the product's face. Its commands are imported only when one is asked for."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Console entry point; `--version` answers before anything heavy is imported."""
    if sys.argv[1:] == ["--version"]:
        from conformance import __version__

        print(f"duplex-conformance {__version__}")
        return
    from client.cli_entry import enter
    from conformance.commands import app

    try:
        enter(app, "conformance")
    except ImportError as error:
        from client.library import UnsupportedLibrary

        if not isinstance(error, UnsupportedLibrary):
            raise
        sys.stderr.write(f"conformance: {error}\n")
        sys.exit(2)
    except OSError as error:
        # Standard output is gone or full: nothing more can be told there, and a trace would help nobody.
        if error.filename is not None:
            raise
        sys.stderr.write(f"conformance: output cannot be written: {error.strerror or error}\n")
        os._exit(2)  # the interpreter would try to flush the same stream again
