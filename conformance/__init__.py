"""The testbed: runs scenarios against a target and judges the client."""

__version__ = "0.1.0"
