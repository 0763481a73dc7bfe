"""One HTTP exchange with the judge, bounded in time and size, and how long to wait before it is tried again
(evaluation.md 16.1).

The only importer of aiohttp in the client. Proxy variables of the environment are ignored, redirects are not followed:
the key goes to the host that was named.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Final

import aiohttp

from client.deadlines import DeadlineExceeded, bounded
from client.judge.errors import (
    JudgeAwayError,
    JudgeError,
    JudgeHttpError,
    JudgeResponseError,
    JudgeTimeout,
    JudgeUnusableError,
)
from client.judge.settings import JudgeSettings, completions_url
from client.masking import MASK, SHORTEST, bare_url

LARGEST_BODY_BYTES: Final = 4 * 1024 * 1024
"""A completion of 1200 tokens has some kilobytes."""
_CHUNK_BYTES: Final = 64 * 1024
_OVERLOADED: Final = 429
_CONTEXT_STATUS: Final = (400, 500)
_CONTEXT_TOO_LONG: Final = re.compile(
    r"context_length_exceeded|exceeds?\b.{0,80}\b(?:max(?:imum)?[ _]model[ _]len|context length)"
    r"|maximum (?:model|context) length",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class HttpAnswer:
    """A whole HTTP response."""

    status: int
    body: bytes
    retry_after_s: float | None
    """What the judge asked for; None: nothing."""


class JudgeHttp:
    """The judge's endpoint. An async context manager: it holds the connections."""

    def __init__(self, settings: JudgeSettings, chance: random.Random) -> None:
        """Args: chance: jitters the pauses between tries.

        Raises ValueError: settings out of range.
        """
        settings.check()
        self.settings = settings
        self.chance = chance
        self.url = completions_url(settings.base_url)
        self.shown = bare_url(self.url)
        """The address for messages: a query may hold a key."""
        self.answered = 0
        """JSON replies so far, usable or not; 0 tells an endpoint that never worked from one that failed once."""
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> JudgeHttp:
        self._session = aiohttp.ClientSession(
            # Our own deadline carries every exchange; the library's would be a second one.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def exchange(self, body: bytes, request_id: str) -> HttpAnswer:
        """Post one request and read the whole answer.

        Args:
            body: JSON.
            request_id: ASCII; sent as `X-Client-Request-Id`, so that a judge's log can be matched with the trace.
        Returns: an answer of any status.
        Raises:
            JudgeTimeout: the deadline passed.
            JudgeAwayError: refused, or broken before the answer was whole.
            JudgeResponseError: too large.
        """
        try:
            return await bounded("judge request", self._post(body, request_id), self.settings.timeout_s)
        except DeadlineExceeded as late:
            raise JudgeTimeout(f"no answer from the judge within {late.seconds:.0f} s") from late
        except (aiohttp.ClientError, OSError) as error:
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            # The library's own text for an answer that is no HTTP ends with the whole address.
            said = cause.message if isinstance(cause, aiohttp.ClientResponseError) else str(cause)
            reason = self.masked(" ".join(said.split()) or type(cause).__name__)
            raise JudgeAwayError(f"no answer from {self.shown} ({reason})") from None

    async def _post(self, body: bytes, request_id: str) -> HttpAnswer:
        assert self._session is not None, "used as a context manager"
        headers = {
            "Authorization": f"Bearer {self.settings.api_key}",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "X-Client-Request-Id": request_id,
        }
        async with self._session.post(
            self.url, data=body, headers=headers, allow_redirects=False, ssl=self.settings.tls or True
        ) as response:
            content = bytearray()
            while chunk := await response.content.read(_CHUNK_BYTES):
                content += chunk
                if len(content) > LARGEST_BODY_BYTES:
                    response.close()
                    raise JudgeResponseError(f"the judge's answer is larger than {LARGEST_BODY_BYTES} bytes")
            asked = retry_after_s(response.headers.get("Retry-After"), response.headers.get("Date"))
            return HttpAnswer(response.status, bytes(content), asked)

    def masked(self, text: str) -> str:
        """`text` without the key."""
        key = self.settings.api_key
        return text.replace(key, MASK) if len(key) >= SHORTEST and key != "EMPTY" else text


def check_status(answer: HttpAnswer) -> None:
    """Raises JudgeHttpError: any status but 2xx; the body is told and never read for a verdict."""
    if not 200 <= answer.status < 300:
        raise JudgeHttpError(answer.status, answer.body.decode("utf-8", "replace").strip())


def is_transient(error: JudgeError) -> bool:
    """Whether the same request may succeed a moment later: HTTP 429, 5xx, or a connection that broke."""
    if isinstance(error, JudgeHttpError):
        overloaded = error.status == _OVERLOADED or error.status >= 500
        return overloaded and not is_context_refusal(error)
    return isinstance(error, JudgeAwayError)


def is_context_refusal(error: JudgeError) -> bool:
    """Whether the judge says in so many words that the prompt is too long for it (evaluation.md 16.2)."""
    return (
        isinstance(error, JudgeHttpError)
        and error.status in _CONTEXT_STATUS
        and _CONTEXT_TOO_LONG.search(error.body) is not None
    )


def is_unusable(error: JudgeError) -> bool:
    """Whether no judgement can succeed here: credentials refused, no such path or model, a page instead of JSON."""
    if isinstance(error, JudgeHttpError):
        return error.status in (401, 403, 404, 405, 501) or 300 <= error.status < 400
    return isinstance(error, JudgeUnusableError | JudgeAwayError)


def is_credential_refusal(error: JudgeError) -> bool:
    """Whether the key was refused: nothing else will be accepted with it either."""
    return isinstance(error, JudgeHttpError) and error.status in (401, 403)


def pause_s(
    settings: JudgeSettings, tries: int, retry_after_s: float | None, chance: random.Random
) -> float | None:
    """Seconds before the next try of a request; None: no further try.

    Doubles with each try, jittered down to its half so that clients spread. A longer pause that the judge asked for is
    honoured; one that is longer than we wait ends the tries.

    Args: tries: how many there were, from 1.
    """
    if tries > settings.transport_retries:
        return None
    if retry_after_s is not None and retry_after_s > settings.longest_retry_after_s:
        return None
    longest_s = min(settings.backoff_s * 2.0 ** (tries - 1), settings.longest_backoff_s)
    return max(longest_s * chance.uniform(0.5, 1.0), retry_after_s or 0.0)


def retry_after_s(value: str | None, date: str | None) -> float | None:
    """Seconds a `Retry-After` header asks for; None: absent or unreadable.

    A point in time is taken against the answer's own `Date`, so our clock need not agree with the judge's.
    """
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value.strip()[:9])
    try:
        until = parsedate_to_datetime(value)
        since = parsedate_to_datetime(date or "")
        return max(0.0, (until - since).total_seconds())
    except (ValueError, TypeError):
        return None
