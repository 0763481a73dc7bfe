"""A judge of one's own behind a port of ours: requests are entered as ever, answered by it, and disturbed here.

Where no fault changes an answer it is passed on byte for byte.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from aiohttp import web

from mockserver.faults.judging import JudgeFaultRun
from mockserver.judge import JudgeServer
from mockserver.judge_answers import Answer, HttpError, completion, error_body
from mockserver.judge_faults import change
from mockserver.judge_ledger import JudgeRequest
from mockserver.judge_reading import Asked
from mockserver.judge_verdict import read_verdict

MAX_ANSWER_BYTES = 8 * 1024 * 1024


class JudgeProxy(JudgeServer):
    """The judge's port in front of a live judge.

    Args:
        completions_url: where requests go.
        headers: credentials, in the place of the client's; never told.
        timeout_s: for one request.
        tls: of a judge behind https; None: the system's certificates are trusted.
        named: as of `JudgeServer`.
    """

    def __init__(
        self,
        completions_url: str,
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        **named: Any,
    ) -> None:
        super().__init__(**named)
        self._completions_url = completions_url
        self._headers = dict(headers)
        self._timeout_s = timeout_s
        self._tls = tls
        self._http: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Listen; the judge behind is contacted with the first request."""
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        await super().start()

    async def stop(self) -> None:
        """Stop listening; a second call does nothing."""
        await super().stop()
        if self._http is not None:
            await self._http.close()

    async def _answer(
        self, request: web.Request, entry: JudgeRequest, asked: Asked, taken: Sequence[JudgeFaultRun]
    ) -> web.StreamResponse:
        theirs = await self._ask(await request.read())
        entry.source = "behind"
        answer = _read(theirs)
        biting: list[JudgeFaultRun] = []
        if answer is not None:
            biting = change(taken, answer, entry)
            entry.content, entry.finish_reason = answer.content, answer.finish_reason
            if not answer.odd_choices and entry.kind is not None:
                entry.verdict = read_verdict(entry.kind, answer.content, answer.finish_reason)
            if biting:
                theirs = HttpError(200, completion(entry, asked, answer))
        response = await self._send(request, entry, theirs)
        for run in biting:
            entry.faults.append(run.name)
            run.observe(
                entry,
                sent=((answer.content if answer else None) or "")[:120],
                finish_reason=answer.finish_reason if answer else None,
            )
        self._tell("answered", entry)
        return response

    async def _ask(self, body: bytes) -> HttpError:
        """What the judge answers, whatever its status; a bad gateway where it does not."""
        assert self._http is not None
        headers = {**self._headers, "Content-Type": "application/json"}
        try:
            async with self._http.post(
                self._completions_url,
                data=body,
                headers=headers,
                allow_redirects=False,
                ssl=self._tls or True,
            ) as answer:
                content = await answer.content.read(MAX_ANSWER_BYTES)
                while not answer.content.at_eof() and len(content) < MAX_ANSWER_BYTES:
                    content += await answer.content.read(MAX_ANSWER_BYTES - len(content))
                kept = {k: v for k, v in answer.headers.items() if k in ("Retry-After",)}
                return HttpError(answer.status, content, answer.content_type, kept)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return HttpError(502, error_body(f"the judge behind: {type(error).__name__}", "judge_away"))


def _read(theirs: HttpError) -> Answer | None:
    """The text of a completion; None: it is none."""
    if theirs.status != 200:
        return None
    try:
        choice = json.loads(theirs.body)["choices"][0]
        content = choice["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    reason = choice.get("finish_reason")
    if not isinstance(content, str):
        return None
    return Answer(content, reason if isinstance(reason, str) else "stop")
