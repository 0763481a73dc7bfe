"""The map of design.md section 3 holds: modules import alone, imports point one way, faults are in step."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.faults import FAULTS, Layer

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = ("client", "mockserver", "scenarios", "conformance")

MAY_IMPORT: dict[str, set[str]] = {
    "client": set(),
    "scenarios": set(),
    "mockserver": {"scenarios"},
    "conformance": {"client", "mockserver", "scenarios"},
}
"""Package -> the packages of ours it may import besides itself."""

ONLY_IN: dict[tuple[str, str], tuple[str, ...]] = {
    ("client", "websockets"): ("client.connection", "client.plain_socket"),
    ("client", "aiohttp"): ("client.judge",),
    ("mockserver", "websockets"): (),
    ("scenarios", "websockets"): (),
    ("scenarios", "aiohttp"): (),
    ("scenarios", "asyncio"): (),
}
"""(package, library) -> the modules, or packages, that alone may import it there."""

SUPPORT = {
    "mockserver/faults": {"__init__", "actions", "judging", "mechanism", "moments"},
    "conformance/seams": {"__init__", "base", "disk", "writes"},
}
"""Modules there that are no fault: what faults share."""

OPTIONAL = ("av", "pyarrow")
"""Libraries of the extra `dataset`: every module imports without them."""


def module_files(root: Path = PROJECT) -> dict[str, Path]:
    """Every module of the four packages by its dotted name."""
    files = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


# Every module imports alone ------------------------------------------------------------------------------

# A parent that has imported nothing of ours, and of libraries only those that are always there, forks a child for
# each module: a fresh state of our own code for each import, in milliseconds. What stands above `scenarios`, which
# imports none of ours and takes longest, is forked from a parent that has it.
IMPORT_EACH = """
import json, os, sys
modules, hidden, ours, before = json.loads(sys.argv[1])
import aiohttp.web, hypothesis.strategies, numpy.typing, orjson, pybase64, pydantic.type_adapter, rich.console, typer
import websockets.asyncio.client, yaml
assert not [name for name in sys.modules if name.split(".")[0] in ours]
for module in before:
    __import__(module)
results = {}
for module in modules:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        try:
            sys.modules.update(dict.fromkeys(hidden))
            __import__(module)
            tops = {name.split(".")[0] for name in sys.modules}
            told = {"imported": sorted(tops & set(ours))}
        except BaseException as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(write_end, "w") as pipe:
            pipe.write(json.dumps(told))
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    results[module] = json.loads(text) if text else {"error": "the interpreter died"}
print(json.dumps(results))
"""


def import_each(modules: list[str], root: Path) -> dict[str, dict[str, object]]:
    """Import each module in a fresh state; give what of ours was imported with it, or the error."""
    before = ["scenarios.loader", "scenarios.schema"] if "scenarios.model" in modules else []
    above = [module for module in modules if module.split(".")[0] in ("mockserver", "conformance")]
    below = [module for module in modules if module not in above]
    parents = [
        subprocess.Popen(
            [sys.executable, "-c", IMPORT_EACH, json.dumps([those, OPTIONAL, PACKAGES, first])],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for those, first in ((above[::2], before), (above[1::2], before), (below, []))
    ]
    results: dict[str, dict[str, object]] = {}
    for parent in parents:
        output, _ = parent.communicate(timeout=300)
        results.update(json.loads(output.splitlines()[-1]))
    return results


def importable() -> list[str]:
    """Every module but `__main__`, which is a program and not for import."""
    return [module for module in module_files() if not module.endswith(".__main__")]


@pytest.fixture(scope="module")
def imported() -> dict[str, dict[str, object]]:
    return import_each(importable(), PROJECT)


def test_every_module_imports_alone_and_without_the_optional_libraries(
    imported: dict[str, dict[str, object]],
) -> None:
    broken = {module: told["error"] for module, told in imported.items() if "error" in told}

    assert broken == {}
    assert set(imported) == set(importable())


def test_importing_a_package_loads_only_what_it_may_import(imported: dict[str, dict[str, object]]) -> None:
    astray = {}
    for module, told in imported.items():
        own = module.split(".")[0]
        loaded = told.get("imported", [])
        assert isinstance(loaded, list)
        if more := set(loaded) - {own} - MAY_IMPORT[own]:
            astray[module] = more

    assert astray == {}


def test_a_cycle_and_a_missing_library_are_seen(tmp_path: Path) -> None:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "client" / "first.py").write_text("from client.second import b\na = 1\n")
    (tmp_path / "client" / "second.py").write_text("from client.first import a\nb = 1\n")
    (tmp_path / "client" / "heavy.py").write_text("import av\n")
    (tmp_path / "client" / "fine.py").write_text("import mockserver\n")

    results = import_each(list(module_files(tmp_path)), tmp_path)
    assert "circular import" in str(results["client.first"]["error"])
    assert "circular import" in str(results["client.second"]["error"])
    assert "av" in str(results["client.heavy"]["error"])
    assert results["client.fine"] == {"imported": ["client", "mockserver"]}


# Imports point the way drawn -----------------------------------------------------------------------------


def imports_of(module: str, source: str, *, is_package: bool = False) -> Iterator[str]:
    """Every module named by an import statement, at any depth and under TYPE_CHECKING too, made absolute."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + (1 if is_package else 0)]
                base = ".".join([*above, base] if base else above)
            yield base
            yield from (f"{base}.{alias.name}".removeprefix(".") for alias in node.names)


def astray(module: str, imported: str) -> bool:
    """Whether a module of ours may not import this name."""
    own, target = module.split(".")[0], imported.split(".")[0]
    if target in PACKAGES and target != own and target not in MAY_IMPORT[own]:
        return True
    if target == "tests":
        return True
    homes = ONLY_IN.get((own, target))
    return homes is not None and not any(module == home or module.startswith(f"{home}.") for home in homes)


def test_imports_point_the_way_that_is_drawn() -> None:
    wrong = [
        f"{module} imports {name}"
        for module, path in module_files().items()
        for name in imports_of(module, path.read_text("utf-8"), is_package=path.name == "__init__.py")
        if astray(module, name)
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("module", "source", "is_wrong"),
    [
        ("client.run", "import mockserver", True),
        ("client.run", "from scenarios.model import Scenario", True),
        ("client.run", "def f():\n    from conformance import clock", True),
        ("client.run", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import scenarios", True),
        ("client.session", "from websockets.asyncio.client import connect", True),
        ("client.connection", "from websockets.asyncio.client import connect", False),
        ("client.generate", "import aiohttp", True),
        ("client.judge.http", "import aiohttp", False),
        ("client.judge_like", "import aiohttp", True),
        ("client.run", "from . import wire", False),
        ("client.judge.http", "from ..wire import read_event", False),
        ("client.run", "from .. import mockserver", True),
        ("scenarios.model", "from mockserver.profiles import PROFILES", True),
        ("mockserver.app", "from client import wire", True),
        ("mockserver.app", "import websockets", True),
        ("mockserver.app", "from scenarios.faults import FAULTS", False),
        ("mockserver.app", "import conformance.clock", True),
        ("conformance.runner", "import client.run, mockserver.app, scenarios", False),
        ("conformance.runner", "import tests.conftest", True),
    ],
)
def test_an_import_against_the_arrows_is_seen(module: str, source: str, is_wrong: bool) -> None:
    assert any(astray(module, name) for name in imports_of(module, source)) is is_wrong


def test_client_and_server_share_no_module_of_ours() -> None:
    reached = {}
    for start in ("client", "mockserver"):
        reached[start] = {start}
        while more := {name for package in reached[start] for name in MAY_IMPORT[package]} - reached[start]:
            reached[start] |= more

    assert reached["client"] & reached["mockserver"] == set()


# Faults are in step --------------------------------------------------------------------------------------


def fault_files(folder: str) -> set[str]:
    return {path.stem for path in (PROJECT / folder).glob("*.py")} - SUPPORT[folder]


def test_every_fault_has_its_file_and_every_file_its_fault() -> None:
    names = {layer: {name for name, fault in FAULTS.items() if fault.layer is layer} for layer in Layer}
    seams = names.pop(Layer.SEAM)
    names[Layer.JUDGE] = {f"judge_{name}" for name in names[Layer.JUDGE]}

    assert fault_files("conformance/seams") == seams
    assert fault_files("mockserver/faults") == set().union(*names.values())


def test_every_fault_says_what_it_does() -> None:
    silent = []
    for name, fault in FAULTS.items():
        folder = "conformance/seams" if fault.layer is Layer.SEAM else "mockserver/faults"
        stem = f"judge_{name}" if fault.layer is Layer.JUDGE else name
        path = PROJECT / folder / f"{stem}.py"
        if not ast.get_docstring(ast.parse(path.read_text("utf-8"))):
            silent.append(f"{folder}/{stem}.py")
        if "__doc__" not in vars(fault) or not vars(fault)["__doc__"]:
            silent.append(f"scenarios/faults.py {fault.__name__}")

    assert silent == []


def test_every_parameter_of_a_fault_is_described() -> None:
    files = sorted((PROJECT / "scenarios").glob("faults*.py"))
    bare = [
        f"{node.name}.{statement.target.id}"
        for node in (node for file in files for node in ast.parse(file.read_text("utf-8")).body)
        if isinstance(node, ast.ClassDef) and node.name in {fault.__name__ for fault in FAULTS.values()}
        for statement, after in zip(node.body, [*node.body[1:], None], strict=True)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and "ClassVar" not in ast.unparse(statement.annotation)
        and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]

    assert bare == []
