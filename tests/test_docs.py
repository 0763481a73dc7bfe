"""The documents stand alone: what is referred to is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
DOCS = PROJECT / "docs"
SPECIFICATIONS = ("protocol.md", "evaluation.md", "design.md")
REFERRING = ("client", "mockserver", "scenarios", "conformance", "tests", "bench", "docs")

REFERENCE = re.compile(
    r"(?P<file>protocol|evaluation|design)\.md`?,?\s+(?:sections?\s+)?"
    r"(?P<numbers>\d+(?:\.\d+)*(?:(?:,| and|,? or) \d+(?:\.\d+)*(?![\w:.-]*\w))*)"
)


def sections(name: str) -> set[str]:
    """Numbers of the headings of a specification, and of the points of a numbered list below one."""
    numbers = set()
    heading = ""
    for line in (DOCS / name).read_text("utf-8").splitlines():
        if found := re.match(r"#+ (\d+(?:\.\d+)*)\.? ", line):
            heading = found[1]
            numbers.add(heading)
        elif heading and (found := re.match(r"(\d+)\. ", line)):
            numbers.add(f"{heading}.{found[1]}")
    return numbers


def references(text: str) -> Iterator[tuple[str, str]]:
    """(file, section) for each reference such as `protocol.md 5.5` or `design.md section 4`."""
    for match in REFERENCE.finditer(re.sub(r"\s*\n[#\s]*", " ", text)):
        for number in re.findall(r"\d+(?:\.\d+)*", match["numbers"]):
            yield f"{match['file']}.md", number


def test_every_section_that_is_referred_to_exists() -> None:
    known = {name: sections(name) for name in SPECIFICATIONS}
    texts = [
        path
        for folder in REFERRING
        for path in sorted((PROJECT / folder).rglob("*"))
        if path.suffix in {".py", ".yaml", ".md"} and path != Path(__file__)
    ]

    lost = {
        f"{path.relative_to(PROJECT)}: {name} {number}"
        for path in texts
        for name, number in references(path.read_text("utf-8"))
        if number not in known[name]
    }
    assert lost == set()
    assert sum(1 for path in texts for _ in references(path.read_text("utf-8"))) > 50


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(protocol.md 5.5)", [("protocol.md", "5.5")]),
        ("evaluation.md 99.1 and", [("evaluation.md", "99.1")]),
        ("design.md section 4,\n    rule 1", [("design.md", "4")]),
        ("evaluation.md sections 7 and 8.", [("evaluation.md", "7"), ("evaluation.md", "8")]),
        ("protocol.md 5.5, 6.3: x", [("protocol.md", "5.5"), ("protocol.md", "6.3")]),
        ("see protocol.md for more", []),
    ],
)
def test_references_are_read(text: str, found: list[tuple[str, str]]) -> None:
    assert list(references(text)) == found


def test_the_specification_holds_all_63_requirements() -> None:
    text = (DOCS / "evaluation.md").read_text("utf-8")

    assert re.findall(r"(?m)^\* \*\*(R\d+)\*\*", text) == [f"R{number}" for number in range(1, 64)]


def test_the_specification_lists_42_defects_once_each() -> None:
    ids = re.findall(r"(?m)^\| `([a-z-]+)` \|", (DOCS / "defects.md").read_text("utf-8"))

    assert len(ids) == 42
    assert len(set(ids)) == 42


def mapped(package: str) -> set[str]:
    """Modules and folders that architecture.md names in a package's part of the map; `dataset*.py` is a pattern."""
    text = (DOCS / "architecture.md").read_text("utf-8").split("## The way of one unit")[0]
    part = text.split(f"### {package}/")[1].split("### ")[0]
    return set(re.findall(r"`([a-z_*]+(?:\.py|/))[^`]*`", part))


@pytest.mark.parametrize("package", ["client", "scenarios", "mockserver", "conformance"])
def test_the_map_names_every_module_and_no_other(package: str) -> None:
    folder = PROJECT / package
    here = {path.name for path in folder.glob("*.py") if not path.name.startswith("__")}
    here |= {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    here |= {"catalogue/"} if (folder / "catalogue").is_dir() else set()

    named = mapped(package)
    missing = {name for name in here if not any(fnmatch(name, pattern) for pattern in named)}
    gone = {pattern for pattern in named if not any(fnmatch(name, pattern) for name in here)}
    assert (missing, gone) == (set(), set())


def test_links_between_documents_lead_somewhere() -> None:
    documents = [*PROJECT.glob("*.md"), *DOCS.rglob("*.md")]

    dead = [
        f"{path.name}: {target}"
        for path in documents
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert dead == []
