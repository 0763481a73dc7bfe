"""`conformance`: the product's face. Its commands are imported only when one is asked for."""

from __future__ import annotations

import sys


def main() -> None:
    """Console entry point; `--version` answers before anything heavy is imported."""
    if sys.argv[1:] == ["--version"]:
        from conformance import __version__

        try:
            print(f"duplex-conformance {__version__}", flush=True)
        except OSError as error:
            from client.cli_entry import end_without_output

            end_without_output("conformance", error)
        return
    from client.cli_entry import enter
    from conformance.commands import app

    try:
        enter(app, "conformance")
    except Exception as error:  # noqa: BLE001 - a bug of ours, told with its stack, and never by the code of a failure
        from client.library import UnsupportedLibrary

        if isinstance(error, UnsupportedLibrary):
            sys.stderr.write(f"conformance: {error}\n")
            sys.exit(2)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(3)
