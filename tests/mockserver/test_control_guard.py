"""Who may use the control API: this host's programs, whoever has the token, and no page of a browser."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from mockserver.control_guard import Guard, is_loopback

TOKEN = "a-token-of-some-length"


def status(guard: Guard, **headers: str) -> int | None:
    spelled = {name.replace("_", "-"): value for name, value in headers.items()}
    denied = guard.denied(CIMultiDict(spelled))
    return denied.status if denied is not None else None


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "127.0.0.1"])
def test_a_program_on_this_host_may(host: str) -> None:
    assert status(Guard("127.0.0.1"), Host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "192.168.1.5:8080",
        "",
        "[",
        "localhost.evil.example",
    ],
)
def test_a_name_that_was_made_to_lead_here_may_not(host: str) -> None:
    assert status(Guard("127.0.0.1"), Host=host) == 403


def test_a_request_without_a_host_may_not() -> None:
    assert status(Guard("127.0.0.1")) == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9"},
        {"Origin": "https://127.0.0.1:80"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_origin_may_not(headers: dict[str, str]) -> None:
    assert Guard("127.0.0.1").denied(CIMultiDict({"Host": "127.0.0.1:80", **headers})) is not None


def test_the_server_s_own_origin_may() -> None:
    headers = {"Host": "127.0.0.1:80", "Origin": "http://127.0.0.1:80", "Sec-Fetch-Site": "same-origin"}

    assert Guard("127.0.0.1").denied(CIMultiDict(headers)) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (f"Bearer {TOKEN}", None),
        (f"bearer  {TOKEN} ", None),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
        ("Bearer", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer \u00e4\udc80", 401),
        ("Bearer " + "x" * 100_000, 401),
        ("", 401),
    ],
)
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_with_a_token_only_its_bearer_may(host: str, given: str, expected: int | None) -> None:
    assert status(Guard(host, TOKEN), Host="127.0.0.1:80", Authorization=given) == expected


def test_where_others_can_reach_the_server_its_names_are_theirs() -> None:
    assert status(Guard("0.0.0.0", TOKEN), Host="box.example:80", Authorization=f"Bearer {TOKEN}") is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.example"])
def test_an_address_that_others_can_reach_needs_a_token(host: str) -> None:
    with pytest.raises(ValueError, match="a token is needed"):
        Guard(host)


def test_the_token_is_not_shown() -> None:
    assert TOKEN not in repr(Guard("127.0.0.1", TOKEN))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("x", False),
    ],
)
def test_loopback_is_known(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
