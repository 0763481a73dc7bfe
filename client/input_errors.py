"""Errors of what the user hands in: they sit alone, so that imports cannot loop."""

from __future__ import annotations


class MediaError(ValueError):
    """A media file cannot be used. The message names the file, what was found and what is allowed."""


class DatasetError(ValueError):
    """A dataset cannot be used. The message names file, row or column, what was found and what is allowed."""
