"""Why a judgement gives no score. They sit alone, so that imports cannot loop."""

from __future__ import annotations


class JudgeError(Exception):
    """A judgement gave no score; the text says why. An unscored judgement is never a zero."""


class JudgeHttpError(JudgeError):
    """The judge answered with an HTTP error, or with one inside a body of status 200.

    Attributes: `status`; `body`, its first 500 characters.
    """

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        self.body = body[:500]
        told = " ".join(self.body.split())  # a page in one line
        super().__init__(f"HTTP {status}: {told}" if told else f"HTTP {status}")


class JudgeAwayError(JudgeError):
    """No connection to the judge, or one that broke before the reply was whole."""


class JudgeTimeout(JudgeError):
    """The judge did not answer within its deadline."""


class JudgeUnusableError(JudgeError):
    """What answers is no judge: a page instead of JSON. Trying again serves nothing."""


class JudgeResponseError(JudgeError):
    """A reply that is not whole: cut short, empty, refused, without choices. It is never parsed into a score.

    Attributes: `finish_reason` as the judge gave it; `raw`, the text received.
    """

    def __init__(self, message: str, *, finish_reason: str | None = None, raw: str | None = None) -> None:
        super().__init__(message)
        self.finish_reason = finish_reason
        self.raw = raw


class ReplyError(JudgeError, ValueError):
    """A whole reply without a usable verdict; the text goes back to the judge with the one re-ask."""
