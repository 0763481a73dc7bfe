"""What ends a command before anything ran."""

from __future__ import annotations


class ConfigurationError(ValueError):
    """A run that cannot begin as asked; the message names what was found and what is allowed."""
