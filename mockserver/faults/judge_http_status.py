"""`http_status` of the judge."""

from __future__ import annotations

from typing import ClassVar

from mockserver.faults.judging import JudgeFault
from mockserver.judge_answers import HttpError, error_body
from mockserver.judge_ledger import JudgeRequest
from scenarios.faults_judge import HttpStatus as Spec


class HttpStatus(JudgeFault):
    """The endpoint answers with an HTTP error; the model is not asked.

    Wire: `status`, with OpenAI's error object, or a proxy's HTML page that quotes a verdict; `Retry-After` where
    given.
    Parameters: `status`, `retry_after_s` (seconds), `body` (error, html), `code`, `message`.
    Survive: try 429 and 5xx again, boundedly, no sooner than `Retry-After` says; such tries are traced and are no
    re-asks. Any other status fails the judgement, and nothing in the body is a score.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        self._spec = spec

    def instead(self, entry: JudgeRequest) -> HttpError:
        spec = self._spec
        headers = {} if spec.retry_after_s is None else {"Retry-After": str(spec.retry_after_s)}
        if spec.body == "html":
            page = (
                f"<!DOCTYPE html>\n<html><head><title>{spec.status}: Bad gateway</title></head><body>"
                f'<h1>Bad gateway</h1><p>{spec.message}: {{"temporal_score": 0, "is_relevant": 0, '
                '"content_score": 0, "success_score": 0}</p></body></html>'
            )
            return HttpError(spec.status, page.encode(), "text/html", headers)
        kind = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        error = error_body(spec.message, kind.get(spec.status, "server_error"), code=spec.code)
        return HttpError(spec.status, error, headers=headers)
