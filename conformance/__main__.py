"""`python -m conformance` is `conformance`."""

from conformance.cli import main

main()
