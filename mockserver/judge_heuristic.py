"""A plausible verdict made from the text of a request, so that a run needs no script."""

from __future__ import annotations

import hashlib

import orjson

from mockserver.judge_reading import Asked

_TEMPORAL = (3, 2, 3, 1, 2, 3, 2, 3)
_RELEVANT = (1, 1, 1, 1, 0, 1, 1, 1)
_SUCCESS = (1, 0, 1, 1, 0, 1, 1, 0)


def plausible_reply(asked: Asked) -> str:
    """A valid JSON verdict of the request's kind.

    The same text gets the same verdict, in every process. Over many requests the means lie where a fair model's
    do: temporal scores around 2.1, content around 2.4, five successes in eight.
    """
    digest = hashlib.sha256(f"{asked.kind}\n{asked.text}".encode()).digest()
    basis = f"made from the text of the request ({digest.hex()[:8]})"
    verdict: dict[str, object]
    if asked.kind == "temporal":
        relevant = _RELEVANT[digest[1] % 8]
        verdict = {
            "temporal_score": _TEMPORAL[digest[0] % 8] if relevant else 0,
            "temporal_reasoning": basis,
            "is_relevant": relevant,
        }
    elif asked.kind == "content":
        verdict = {"content_score": (190 + digest[0] % 101) / 100, "content_reasoning": basis}
    else:
        verdict = {"success_score": _SUCCESS[digest[0] % 8], "reasoning": basis}
    return orjson.dumps(verdict).decode()
