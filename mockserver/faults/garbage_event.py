"""`garbage_event`."""

from __future__ import annotations

from typing import ClassVar

import orjson

from mockserver.faults.actions import Action, Observed, Text
from mockserver.faults.moments import Injected, filled
from scenarios.faults_session import GarbageEvent as Spec


class GarbageEvent(Injected):
    """A text frame that is no event of the protocol.

    Wire: `times` frames with the text, or with the JSON value, as they are: no JSON, JSON that is no object, an
        object without a type or with wrong types. No `event_id` is added, no sequence number taken. Without a
        trigger right after `session.updated`.
    Parameters: `text` or `event`; in strings `$session_id`, `$response_id` and `$item_id` stand for those of the
        last reply; `times` (count).
    Survive: note it and go on; it neither ends the reader nor fails a sample whose reply is complete.
    """

    name: ClassVar[str] = Spec.name

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._spec = spec

    def act(self, now_s: float) -> list[Action]:
        spec = self._spec
        if spec.text is not None:
            payload = str(filled(spec.text, self.session)).encode()
        else:
            payload = orjson.dumps(filled(spec.event, self.session), option=orjson.OPT_NON_STR_KEYS)
        evidence = {"sent": payload[:80].decode("utf-8", "replace"), "times": spec.times, "at_s": now_s}
        return [*[Text(payload)] * spec.times, Observed(evidence)]
