"""What the server says of its own engine, picked from events (protocol.md 13)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from client.responses import ResponseRecord
from client.wire import Event, response_id_of

_TELLING: Final = frozenset({"response_request_metrics", "vllm_omni", "metadata", "response"})
"""Fields in which an event may tell; most events, acknowledgements above all, have none of them."""


def note_stats(responses: Mapping[str, ResponseRecord], event: Event) -> None:
    """Keep the engine's figures of a response. They are cumulative, so the latest hold.

    Those of a `response.listen` are of its unit alone and are left out.
    """
    if event.keys().isdisjoint(_TELLING):
        return
    response = responses.get(response_id_of(event) or "")
    if response is None or event["type"] == "response.listen":
        return
    stages = next(_found(event, "stage_metrics", with_turn_events=False), None)
    if stages is not None:
        response.stage_metrics = stages
    request = next(_found(event, "response_request_metrics", with_turn_events=True), None)
    if request is not None:
        response.request_metrics = {**(response.request_metrics or {}), **request}


def session_id_of(event: Event) -> str | None:
    """The session's id where an event tells it: `session.id`, else `session_id`."""
    for value in (_inside(event, "session").get("id"), event.get("session_id")):
        if isinstance(value, str) and value:
            return value
    return None


def _found(event: Event, name: str, *, with_turn_events: bool) -> Iterator[dict[str, Any]]:
    for place in _places(event, with_turn_events=with_turn_events):
        value = place.get(name)
        if isinstance(value, dict):
            yield value


def _places(event: Event, *, with_turn_events: bool) -> Iterator[Mapping[str, Any]]:
    """Where clients look, in this order (protocol.md 13.1, 13.2)."""
    response = event.get("response")
    metadata = _inside(event, "metadata")
    inner = _inside(response if isinstance(response, dict) else {}, "metadata")
    if with_turn_events:
        yield event
    yield _inside(event, "vllm_omni")
    yield metadata
    yield _inside(metadata, "vllm_omni")
    yield inner
    yield _inside(inner, "vllm_omni")
    if with_turn_events:
        yield _inside(metadata, "duplex_event")
        yield _inside(inner, "duplex_event")


def _inside(place: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = place.get(name)
    return value if isinstance(value, dict) else {}
