"""The layers below a session, one after another: name, TCP, TLS, /health, /v1/models."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from typing import Any

import aiohttp

from conformance.live.problem import Problem, Step
from conformance.live.server import LiveServer
from mockserver.upstream import make_http

MAX_BODY_BYTES = 1_000_000
SHOWN_MODELS = 5


async def resolve(server: LiveServer) -> Step:
    """The host's addresses.

    Raises Problem: there is none.
    """
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    try:
        async with asyncio.timeout(server.connect_s):
            found = await loop.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise Problem(
            "name", f"{server.host} was not resolved within {server.connect_s:g} s", "is the DNS server up?"
        ) from None
    except OSError as error:
        raise Problem(
            "name",
            f"{server.host} has no address ({error.strerror or error})",
            "check the spelling, or give the address instead of the name",
        ) from error
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    return Step("name", f"{server.host} is {', '.join(addresses[:3])}", loop.time() - since_s)


async def connect(server: LiveServer) -> Step:
    """A TCP connection, made and dropped.

    Raises Problem: refused, or no answer.
    """
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    try:
        async with asyncio.timeout(server.connect_s):
            _, writer = await asyncio.open_connection(server.host, server.port)
    except ConnectionRefusedError:
        raise Problem(
            "tcp",
            f"{server.host_and_port} refuses connections",
            "is the server running, and is the port right? a model takes minutes to load",
        ) from None
    except TimeoutError:
        raise Problem(
            "tcp",
            f"{server.host_and_port} did not answer within {server.connect_s:g} s",
            "a firewall may drop packets; try `nc -vz` from this machine, or a tunnel",
        ) from None
    except OSError as error:
        raise Problem(
            "tcp", f"{server.host_and_port}: {error.strerror or error}", "check the route"
        ) from error
    writer.transport.abort()
    return Step("tcp", f"{server.host_and_port} accepts", loop.time() - since_s)


async def shake_hands(server: LiveServer) -> Step | None:
    """A TLS connection, made and dropped; None without TLS.

    Raises Problem: in the words of what is wrong with certificate or peer.
    """
    context = server.tls()
    if context is None:
        return None
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    try:
        async with asyncio.timeout(server.connect_s):
            _, writer = await asyncio.open_connection(
                server.host, server.port, ssl=context, server_hostname=server.host
            )
    except ssl.SSLCertVerificationError as error:
        raise _certificate(server, error) from error
    except (ssl.SSLError, ConnectionError) as error:
        raise Problem(
            "tls",
            f"{server.host_and_port} does not speak TLS ({getattr(error, 'reason', None) or error})",
            "plain HTTP? try ws:// instead of wss://",
        ) from error
    except TimeoutError:
        raise Problem(
            "tls",
            f"{server.host_and_port} accepted the connection and said nothing for {server.connect_s:g} s",
            "plain HTTP behind a wss:// URL waits like this; try ws://",
        ) from None
    cipher = writer.get_extra_info("cipher")
    writer.transport.abort()
    return Step("tls", f"{cipher[1]}, certificate trusted", loop.time() - since_s)


def _certificate(server: LiveServer, error: ssl.SSLCertVerificationError) -> Problem:
    told = error.verify_message
    if "expired" in told:
        return Problem(
            "tls", f"the certificate of {server.host} has expired", "renew it, or check this clock"
        )
    if "self-signed" in told or "self signed" in told or "unable to get" in told:
        return Problem(
            "tls",
            f"the certificate of {server.host} is not trusted ({told})",
            "give the certificate of its CA: --ca-file FILE",
        )
    if "match" in told or "not valid for" in told:
        return Problem(
            "tls", f"the certificate is not for {server.host} ({told})", "use the name that stands in it"
        )
    return Problem("tls", f"the certificate of {server.host} is refused: {told}", "see --ca-file")


async def healthy(server: LiveServer) -> Step:
    """`/health` (protocol.md 2); a server without it is told and not refused.

    Raises Problem: no HTTP there, credentials refused, or an engine that is down.
    """
    status, body, took_s = await _get(server, "/health")
    if status in (401, 403):
        raise _refused("health", status)
    if status == 404:
        return Step("health", "no /health there", took_s, warns=True)
    if status != 200:
        raise Problem(
            "health",
            f"/health answers {status}{_shown(body)}",
            "the engine is dead or not loaded yet: look at the server's log, wait for its start",
        )
    return Step("health", "/health answers 200", took_s)


async def serves_model(server: LiveServer) -> Step:
    """`/v1/models` lists the model.

    Raises Problem: it is not served, or credentials are refused.
    """
    status, body, took_s = await _get(server, "/v1/models")
    if status in (401, 403):
        raise _refused("models", status)
    if status != 200:
        return Step("models", f"/v1/models answers {status}; the model was not checked", took_s, warns=True)
    names = model_names(body)
    if names is None:
        return Step("models", "/v1/models is no list of models; not checked", took_s, warns=True)
    require_model(server.model, names, "models", "--model")
    return Step("models", f"{server.model} is served", took_s)


def require_model(model: str, served: list[str], layer: str, option: str) -> None:
    """Whether a model is among those that are served.

    Raises Problem: it is not; told with the first that are, and the option that names one.
    """
    if model not in served:
        listed = ", ".join(served[:SHOWN_MODELS]) or "none"
        raise Problem(
            layer, f"{model!r} is not served; served: {listed}", f"give one of these by {option}", usage=True
        )


def model_names(body: bytes) -> list[str] | None:
    """Ids of an OpenAI list of models; None: it is none."""
    try:
        data = json.loads(body)["data"]
        return [str(item["id"]) for item in data]
    except (ValueError, KeyError, TypeError):
        return None


async def metrics(server: LiveServer) -> dict[str, float] | None:
    """Samples of `/metrics` that count requests or sessions, by name with labels; None: there is none."""
    with contextlib.suppress(Problem):
        status, body, _ = await _get(server, "/metrics")
        if status == 200:
            return read_metrics(body.decode("utf-8", "replace"))
    return None


def read_metrics(text: str) -> dict[str, float]:
    """Counts of requests and sessions in a Prometheus exposition; other lines are passed over."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if line.startswith("#") or not ("request" in name or "session" in name) or "bucket" in name:
            continue
        with contextlib.suppress(ValueError):
            found[name.strip()] = float(value)
    return found


def _refused(layer: str, status: int) -> Problem:
    return Problem(
        layer,
        f"{status}: the server wants credentials, or others",
        "give --api-key-env VAR, or check its value",
    )


def _shown(body: bytes) -> str:
    text = " ".join(body[:200].decode("utf-8", "replace").split())
    return f": {text}" if text else ""


async def _get(server: LiveServer, path: str) -> tuple[int, bytes, float]:
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    behind = server.behind()
    try:
        async with (
            make_http(behind) as http,
            asyncio.timeout(server.connect_s),
            http.get(behind.http_url.with_path(path), allow_redirects=False) as answer,
        ):
            body = await answer.content.read(MAX_BODY_BYTES)
            return answer.status, body, loop.time() - since_s
    except TimeoutError:
        raise Problem(
            path.split("/")[-1],
            f"{path} was not answered within {server.connect_s:g} s",
            "the server accepts connections and does not serve: is it still starting?",
        ) from None
    except (aiohttp.ClientError, OSError) as error:
        told: Any = str(error) or type(error).__name__
        raise Problem(
            path.split("/")[-1],
            f"{path}: no HTTP answer ({told})",
            "is this the server's HTTP port? TLS behind a ws:// URL answers like this: try wss://",
        ) from error
