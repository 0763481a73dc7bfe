"""Loading `python:MOD:FUNC`: by file, under a private name, so that a lab's `client` never meets ours."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from conformance.clients.choice import SHOWS, ClientChoice, Shows
from conformance.errors import ConfigurationError

PRIVATE = "_conformance_client"
_OURS = ("client", "conformance", "mockserver", "scenarios", "tests")
"""Names of ours that a lab may use for packages of its own."""

Entry = Callable[[Any], Awaitable[Any]]
"""`async def FUNC(job)`."""

_loaded: dict[tuple[Path, str], tuple[Entry, Any]] = {}
"""By file and function: the function, and what its module declares as `SHOWS`."""


def load_entry(choice: ClientChoice, folder: Path | None = None) -> Entry:
    """The function that `python:MOD:FUNC` names; loaded once a process.

    Args:
        folder: where a dotted name begins; None: the current folder.
    Raises ConfigurationError: there is no such file or function, it is no coroutine function, or the module raised.

    While the module is executed its own folder comes first on `sys.path`, and packages of that folder that are named
    as ours are its own; what it imports later, inside a function, finds ours. So a lab's module imports at its top.
    """
    return _load(choice, folder or Path.cwd())[0]


def declared_shows(choice: ClientChoice, folder: Path | None = None) -> Shows:
    """What the module declares to show of its sessions as `SHOWS`; metadata, where it declares nothing.

    Raises ConfigurationError: as `load_entry`, or it declares something else.
    """
    declared = _load(choice, folder or Path.cwd())[1]
    if declared is None:
        return "metadata"
    found = next((known for known in SHOWS if known == declared), None)
    if found is None:
        known = " or ".join(map(repr, SHOWS))
        raise ConfigurationError(f"--client {choice.told}: SHOWS is {declared!r}; expected {known}")
    return found


def _load(choice: ClientChoice, root: Path) -> tuple[Entry, Any]:
    file, top = find_module(choice.module, root)
    known = _loaded.get((file, choice.function))
    if known is not None:
        return known
    module = _execute(file, top, choice.told)
    entry: Entry | None = getattr(module, choice.function, None)
    if entry is None:
        raise ConfigurationError(f"--client {choice.told}: {file} has no {choice.function!r}")
    if not inspect.iscoroutinefunction(entry):
        raise ConfigurationError(
            f"--client {choice.told}: in {file}, {choice.function} is no `async def`; "
            f"expected async def {choice.function}(job)"
        )
    found = _loaded[file, choice.function] = (entry, getattr(module, "SHOWS", None))
    return found


def find_module(name: str, root: Path) -> tuple[Path, Path]:
    """The file of a module, and the folder that its own imports begin in.

    Args:
        name: a path that ends in .py, or a dotted name below `root`.
    Raises ConfigurationError: there is no such file; the message names the places that were looked at.
    """
    if name.endswith(".py"):
        file = (root / name).resolve()
        if not file.is_file():
            raise ConfigurationError(f"--client python:{name}: no file {file}")
        return file, file.parent
    if not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(f"--client python:{name}: expected a path to a .py file, or a dotted name")
    base = root.joinpath(*name.split("."))
    places = [base.with_suffix(".py"), base / "__init__.py"]
    for place in places:
        if place.is_file():
            return place.resolve(), root.resolve()
    raise ConfigurationError(f"--client python:{name}: no file {' or '.join(map(str, places))}")


def _execute(file: Path, top: Path, told: str) -> Any:
    name = f"{PRIVATE}_{file.stem if file.stem != '__init__' else file.parent.name}"
    packaged = [str(file.parent)] if file.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=packaged)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _imports_of(top):
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # a module of others may raise anything, or be a script
            del sys.modules[name]
            raise ConfigurationError(
                f"--client {told}: {file} raised {type(error).__name__}: {error}"
            ) from error
    return module


@contextlib.contextmanager
def _imports_of(top: Path) -> Iterator[None]:
    """Imports begin in `top`; modules of ours whose names it uses itself are out of sight and come back untouched."""
    taken = [name for name in _OURS if (top / f"{name}.py").is_file() or (top / name).is_dir()]
    hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in taken}
    if any(Path(str(getattr(module, "__file__", ""))).is_relative_to(top) for module in hidden.values()):
        hidden = {}  # the folder is this project's own
    for name in hidden:
        del sys.modules[name]
    sys.path.insert(0, str(top))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(top))
        if hidden:
            for name in [n for n in sys.modules if n.partition(".")[0] in taken]:
                del sys.modules[name]
            sys.modules.update(hidden)
        if str(top) not in sys.path:
            sys.path.append(str(top))  # helpers beside it that are imported later
