"""Cassettes: recorded sessions, both directions, without media and without secrets (docs/live.md).

A cassette is one NDJSON file. Its first line is the head: `format`, `version`, `query` of the URL, `target`. Each line
after it is one frame or end: `t_s` since the connection was accepted, `dir` (`client->server` or `server->client`),
`kind` (text, binary, ping, pong, close, end), `bytes` of the payload, and `event` (a JSON object), `text` (no JSON
object), `code` and `reason` (close) or `how` (end: fin, rst).

Long strings stand in a store beside it, `media/<first two digits>/<sha256>`, and in the event as {"$stored": sha256,
"chars": count}; each is stored once. What is secret by its name is `***` on its way in: nothing is to be removed later.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson
from aiohttp import WSMsgType

from conformance.live.server import MASK, masked
from conformance.options import ConfigurationError
from conformance.serve_journal import write_whole_lines
from mockserver.upstream import Direction

FORMAT = "duplex-conformance/cassette"
VERSION = 1
STORED = "$stored"
LONG_CHARS = 400
"""Longer strings are media, or as good as media."""
MAX_FILE_BYTES = 256 * 1024 * 1024
TOLD_QUERY = frozenset(
    {"duplex", "model", "autostart", "resume", "session_id", "minicpmo45_native_duplex", "native_duplex"}
)
"""Parameters of protocol.md 1.1; the value of any other is masked."""
_SECRET_KEY = re.compile(r"token|secret|password|authorization|api[_-]?key|credential", re.IGNORECASE)
_SHA = re.compile(r"[0-9a-f]{64}")

Kind = Literal["text", "binary", "ping", "pong", "close", "end"]
_KINDS: Mapping[WSMsgType, Kind] = {
    WSMsgType.TEXT: "text",
    WSMsgType.BINARY: "binary",
    WSMsgType.PING: "ping",
    WSMsgType.PONG: "pong",
    WSMsgType.CLOSE: "close",
}


@dataclass(frozen=True)
class Line:
    """One frame, or the end of one direction."""

    t_s: float
    dir: Direction
    kind: Kind
    size_bytes: int = 0
    event: Mapping[str, Any] | None = None
    """With media as references."""
    text: str | None = None
    """Of a text frame that is no JSON object, shortened."""
    code: int | None = None
    reason: str = ""
    how: str = ""

    @property
    def type(self) -> str:
        """Of its event; the kind in brackets for anything else."""
        return str(self.event.get("type", "(untyped)")) if self.event is not None else f"({self.kind})"

    def to_json(self) -> dict[str, Any]:
        """Without what is empty."""
        data: dict[str, Any] = {
            "t_s": round(self.t_s, 6),
            "dir": self.dir,
            "kind": self.kind,
            "bytes": self.size_bytes,
        }
        for key in ("event", "text", "code"):
            if getattr(self, key) is not None:
                data[key] = getattr(self, key)
        return data | {key: value for key in ("reason", "how") if (value := getattr(self, key))}


@dataclass
class Cassette:
    """One recorded session."""

    name: str
    query: str
    target: Mapping[str, Any] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    store: Path | None = None
    """Where its media are; None: it has none."""

    def of(self, direction: Direction) -> list[Line]:
        """Text frames of one side, in order."""
        return [line for line in self.lines if line.dir == direction and line.kind == "text"]

    def whole(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """An event with its media back in their places.

        Raises ConfigurationError: one is missing from the store, or is not what its name says.
        """
        return {key: self._whole(value) for key, value in event.items()}

    def _whole(self, value: Any) -> Any:
        if isinstance(value, dict):
            if STORED in value:
                return load_stored(self.store, str(value[STORED]))
            return {key: self._whole(inner) for key, inner in value.items()}
        return [self._whole(inner) for inner in value] if isinstance(value, list) else value


def load_stored(store: Path | None, sha: str) -> str:
    """A string of the store.

    Raises ConfigurationError: there is none of this name, or it holds something else.
    """
    if store is None or not _SHA.fullmatch(sha):
        raise ConfigurationError(f"a cassette names {sha!r}, and there is no such media")
    path = store / sha[:2] / sha
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{path}: {error.strerror or error}; the media of a cassette lie beside it"
        ) from None
    if hashlib.sha256(data).hexdigest() != sha:
        raise ConfigurationError(f"{path}: its content is not what its name says")
    return data.decode("utf-8", "surrogatepass")


class CassetteTape:
    """Writes each session as it goes by (`mockserver.upstream.Tape`).

    Args:
        folder: of cassettes and store; made if need be.
        prefix: of the files' names; empty: `session`, and no file that is there is written over.
        headers: credentials of the run: their values never stand in a file, whoever echoes them.
    Attributes:
        broken: why nothing is kept any more: a full disk must not end anybody's session. Told on standard error.
    """

    def __init__(
        self, folder: Path, prefix: str, *, target: Mapping[str, Any], headers: Mapping[str, str]
    ) -> None:
        self._folder = folder
        self._prefix = re.sub(r"[^A-Za-z0-9._-]+", "-", prefix).strip("-")
        self._target = target
        self._headers = headers
        self._began: dict[int, float] = {}
        self._paths: dict[int, Path] = {}
        self._session = 0
        self.broken: OSError | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def opened(self, connection: int, path: str, t_s: float) -> None:
        """A connection was made."""
        if self.broken is not None:
            return
        with self._kept_while_possible():
            self._open(connection, path, t_s)

    def _open(self, connection: int, path: str, t_s: float) -> None:
        self._began[connection] = t_s
        file = self._file(self._prefix, connection) if self._prefix else self._next_session()
        self._paths[connection] = file
        head = {
            "format": FORMAT,
            "version": VERSION,
            "query": told_query(urlsplit(path).query),
            "target": dict(self._target),
        }
        file.write_bytes(b"")
        self._append(file, head)

    @contextlib.contextmanager
    def _kept_while_possible(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self.broken is None:
                self.broken = error
                where = error.filename or self._folder
                told = f"conformance: {where}: cannot be written any more: {error.strerror or error}"
                print(f"{told}; no session is kept from here on", file=sys.stderr, flush=True)

    def _file(self, prefix: str, number: int) -> Path:
        return self._folder / f"{prefix}-{number}.cassette.ndjson"

    def _next_session(self) -> Path:
        """Sessions without a name are numbered on: what an earlier recording left in the folder is not written over."""
        while True:
            self._session += 1
            file = self._file("session", self._session)
            try:
                file.open("xb").close()
            except FileExistsError:
                continue
            return file

    def frame(
        self, connection: int, direction: Direction, kind: WSMsgType, payload: bytes, t_s: float
    ) -> None:
        """A frame went by."""
        if self.broken is None:
            with self._kept_while_possible():
                self._frame(connection, direction, kind, payload, t_s)

    def _frame(
        self, connection: int, direction: Direction, kind: WSMsgType, payload: bytes, t_s: float
    ) -> None:
        told = _KINDS.get(kind, "binary")
        line = Line(t_s - self._began[connection], direction, told, len(payload))
        if told == "text":
            line = self._text(line, payload)
        elif told == "close" and len(payload) >= 2:
            code = int.from_bytes(payload[:2], "big")
            reason = masked(payload[2:].decode("utf-8", "replace"), self._headers)
            line = Line(line.t_s, direction, told, len(payload), code=code, reason=reason)
        self._write(connection, line)

    def ended(self, connection: int, direction: Direction, how: str, t_s: float) -> None:
        """One side's TCP connection is over."""
        if self.broken is None:
            with self._kept_while_possible():
                self._write(connection, Line(t_s - self._began[connection], direction, "end", how=how))

    def _text(self, line: Line, payload: bytes) -> Line:
        try:
            event = orjson.loads(payload)
        except orjson.JSONDecodeError:
            event = None
        if not isinstance(event, dict):
            shown = masked(payload[:LONG_CHARS].decode("utf-8", "replace"), self._headers)
            return Line(line.t_s, line.dir, "text", line.size_bytes, text=shown)
        return Line(line.t_s, line.dir, "text", line.size_bytes, event=self._kept(event, 0))

    def _kept(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._stored(value) if len(value) > LONG_CHARS else masked(value, self._headers)
        if depth > 50:
            return "(deep)"
        if isinstance(value, dict):
            return {
                masked(key, self._headers)[:LONG_CHARS]: MASK
                if _SECRET_KEY.search(key) and isinstance(inner, str)
                else self._kept(inner, depth + 1)
                for key, inner in value.items()
            }
        return [self._kept(inner, depth + 1) for inner in value] if isinstance(value, list) else value

    def _stored(self, text: str) -> dict[str, Any]:
        data = masked(text, self._headers).encode("utf-8", "surrogatepass")
        sha = hashlib.sha256(data).hexdigest()
        path = self._folder / "media" / sha[:2] / sha
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{sha}.part")
            try:
                part.write_bytes(data)
            except OSError:
                part.unlink(missing_ok=True)
                raise
            part.rename(path)
        return {STORED: sha, "chars": len(text)}

    def _write(self, connection: int, line: Line) -> None:
        self._append(self._paths[connection], line.to_json())

    def _append(self, path: Path, data: Mapping[str, Any]) -> None:
        with path.open("ab", buffering=0) as file:
            write_whole_lines(file, orjson.dumps(data) + b"\n")


def told_query(query: str) -> str:
    """A query in which only what the protocol knows has its value."""
    pairs = parse_qsl(query, keep_blank_values=True)
    return urlencode([(name, value if name in TOLD_QUERY else MASK) for name, value in pairs])


def read_cassette(path: Path) -> Cassette:
    """A cassette of ours, or a recording with a line a frame as `{t, conn, dir, text}`.

    Raises ConfigurationError: the file cannot be read or is neither; names file and line.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigurationError(f"{path}: more than {MAX_FILE_BYTES} bytes")
        rows = list(_rows(path))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from None
    if not rows:
        raise ConfigurationError(f"{path}: is empty; expected a cassette")
    name = path.name.removesuffix(".ndjson").removesuffix(".jsonl").removesuffix(".cassette")
    head = rows[0][1]
    if head.get("format") == FORMAT:
        if head.get("version") != VERSION:
            raise ConfigurationError(f"{path}: version {head.get('version')!r}; this reads version {VERSION}")
        lines = [_line(path, number, row) for number, row in rows[1:]]
        store = path.parent / "media"
        target = head.get("target")
        return Cassette(
            name, str(head.get("query", "")), target if isinstance(target, dict) else {}, lines, store
        )
    if head.get("dir") == "open":
        return _imported(path, name, rows)
    raise ConfigurationError(
        f"{path}: no cassette: the first line names neither format {FORMAT!r} nor an open"
    )


def is_cassette(path: Path) -> bool:
    """Whether a file's first line is that of a cassette or of a recording."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline(65536))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(head, dict) and (head.get("format") == FORMAT or head.get("dir") == "open")


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                row = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                raise ConfigurationError(f"{path}:{number}: no JSON: {error}") from None
            if not isinstance(row, dict):
                raise ConfigurationError(f"{path}:{number}: expected an object")
            yield number, row


def _line(path: Path, number: int, row: dict[str, Any]) -> Line:
    try:
        if row["dir"] not in ("client->server", "server->client") or row["kind"] not in (
            *_KINDS.values(),
            "end",
        ):
            raise ValueError(f"dir {row['dir']!r}, kind {row['kind']!r}")
        event = row.get("event")
        if event is not None and not isinstance(event, dict):
            raise TypeError("event is no object")
        return Line(
            float(row["t_s"]),
            row["dir"],
            row["kind"],
            int(row.get("bytes", 0)),
            event,
            row.get("text"),
            row.get("code"),
            str(row.get("reason", "")),
            str(row.get("how", "")),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{path}:{number}: no line of a cassette: {error}") from None


def _imported(path: Path, name: str, rows: list[tuple[int, dict[str, Any]]]) -> Cassette:
    """A recording whose media stand in its frames."""
    begin_s = float(rows[0][1].get("t", 0.0))
    found = Cassette(name, str(rows[0][1].get("query", "")))
    for number, row in rows[1:]:
        try:
            t_s = float(row["t"]) - begin_s
            if row["dir"] in ("client->server", "server->client"):
                event = orjson.loads(row["text"])
                found.lines.append(Line(t_s, row["dir"], "text", len(row["text"].encode()), event))
            elif row["dir"] == "handler-returned":
                found.lines.append(Line(t_s, "server->client", "end", how="fin"))
        except (KeyError, ValueError, TypeError) as error:
            raise ConfigurationError(f"{path}:{number}: no line of a recording: {error}") from None
    return found
