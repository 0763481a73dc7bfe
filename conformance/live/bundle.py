"""What to send to a server's maintainers: a zip of trace, cassette, report and environment, masked."""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from conformance.live.cassette import is_cassette, read_cassette
from conformance.live.heard import answers_line
from conformance.live.server import masked
from conformance.options import ConfigurationError
from conformance.report.publish import publish_by

TAKEN = (".ndjson", ".json", ".jsonl", ".md", ".txt", ".xml")
INDEX = "sessions.txt"
"""A line for each cassette."""
MAX_FILE_BYTES = 64 * 1024 * 1024
_ADDRESS = re.compile(r"(?P<scheme>wss?|https?)://[^/\s\"'@]*@")


def bundle(
    sources: list[Path], out: Path, *, environment: Mapping[str, str], secrets: Mapping[str, str], media: bool
) -> tuple[list[str], list[str]]:
    """Pack files and folders; the zip appears whole or not at all.

    Args:
        sources: folders of a run (`--out`, `--record`) or single files; of those that have one name the later are
            numbered.
        secrets: values that must stand nowhere, by any name.
        media: take the media of cassettes too; without them only their hashes go along.
    Returns: names in the zip; those that are too large for it, with their size, which the index tells too.
    Raises ConfigurationError: nothing to pack, or a file that cannot be read or written.
    """
    found: list[tuple[str, Path]] = []
    times: Counter[str] = Counter()
    for source in sources:
        name = source.resolve().name or "root"
        times[name] += 1
        found += _files(source, name if times[name] == 1 else f"{times[name]}-{name}", media)
    sizes = {name: path.stat().st_size for name, path in found}
    large = [f"{name}: left out, {size} bytes" for name, size in sizes.items() if size > MAX_FILE_BYTES]
    taken = [(name, path) for name, path in found if sizes[name] <= MAX_FILE_BYTES]
    if not found:
        told = ", ".join(str(source) for source in sources)
        raise ConfigurationError(
            f"{told}: nothing to pack; expected traces, cassettes or reports ({', '.join(TAKEN)})"
        )
    names: list[str] = []

    def pack(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, path in taken:
                packed.writestr(name, _masked(path, secrets))
                names.append(name)
            if index := large + [line for name, path in taken if (line := _indexed(name, path))]:
                packed.writestr(INDEX, masked("\n".join(index) + "\n", secrets))
                names.append(INDEX)
            packed.writestr("environment.json", json.dumps(dict(environment), indent=2) + "\n")

    try:
        publish_by(out, pack)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or out}: {error.strerror or error}") from error
    return [*names, "environment.json"], large


def _indexed(name: str, path: Path) -> str:
    """A cassette's line of the index: what its server answered; empty for anything else."""
    if path.suffix not in (".ndjson", ".jsonl") or not is_cassette(path):
        return ""
    try:
        return f"{name}: {answers_line(read_cassette(path))}"
    except ConfigurationError as error:
        return f"{name}: cannot be read: {error}"


def _files(source: Path, called: str, media: bool) -> Iterator[tuple[str, Path]]:
    if source.is_file():
        yield called, source
        return
    if not source.is_dir():
        raise ConfigurationError(f"{source}: does not exist")
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        is_media = "media" in inside.parts
        if not path.is_file() or path.is_symlink():
            continue
        if (is_media and media) or (not is_media and path.suffix in TAKEN):
            yield f"{called}/{inside.as_posix()}", path


def _masked(path: Path, secrets: Mapping[str, str]) -> bytes:
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    return _ADDRESS.sub(r"\g<scheme>://***@", masked(text, secrets)).encode("utf-8")
