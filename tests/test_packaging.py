"""The wheel is what users get: built here, installed into a fresh environment, run from an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scenarios import load_catalogue

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = ("client", "mockserver", "scenarios", "conformance")
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(PROJECT),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)

    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return path


@dataclass(frozen=True)
class Installed:
    """A fresh environment with the wheel, and an empty folder to run in."""

    prefix: Path
    folder: Path

    def run(self, *command: str, limit_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the empty folder, with nothing of ours in its environment."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        return subprocess.run(
            [str(self.prefix / "bin" / command[0]), *command[1:]],
            cwd=self.folder,
            env={**kept, "PATH": f"{self.prefix / 'bin'}:/usr/bin:/bin", "CI": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    root = tmp_path_factory.mktemp("installed")
    prefix = root / "env"
    venv.create(prefix, with_pip=False)
    python = prefix / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*pip, str(wheel)], check=True, stdin=subprocess.DEVNULL)
    # The dependencies are those of this environment. A path named in a .pth file is no site folder of its
    # own, so an editable install there is not followed. Written after the install, else pip sees two of us.
    site = next(prefix.glob("lib/python*/site-packages"))
    paths = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (site / "dependencies.pth").write_text("\n".join(paths) + "\n")
    folder = root / "empty"
    folder.mkdir()
    return Installed(prefix, folder)


def test_the_wheel_holds_the_four_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    info = f"duplex_conformance-{PYPROJECT['project']['version']}.dist-info"
    assert {name.split("/")[0] for name in names} == {*PACKAGES, info}
    assert f"{info}/licenses/LICENSE" in names
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert not [name for name in names if "/tests/" in name or "__pycache__" in name]


def test_the_wheel_holds_the_whole_catalogue(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    files = {path.relative_to(PROJECT).as_posix() for path in PROJECT.glob("scenarios/catalogue/**/*.yaml")}
    assert files
    assert files <= names


def test_the_installed_code_is_what_runs(installed: Installed) -> None:
    script = f"import {', '.join(PACKAGES)}\nfor m in ({', '.join(PACKAGES)}): print(m.__file__)"
    told = installed.run("python", "-c", script)

    assert told.returncode == 0, told.stderr
    assert len(told.stdout.split()) == len(PACKAGES)
    for path in told.stdout.split():
        assert Path(path).is_relative_to(installed.prefix), path


def test_version_needs_no_heavy_library(installed: Installed) -> None:
    heavy = {"aiohttp", "websockets", "numpy", "pydantic", "soundfile", "soxr", "av", "pyarrow", "hypothesis"}
    script = (
        "import sys\nfrom conformance.cli import main\nsys.argv = ['conformance', '--version']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    told = installed.run("python", "-c", script)

    assert told.returncode == 0, told.stderr
    version, loaded = told.stdout.strip().rsplit("\n", 1)
    assert PYPROJECT["project"]["version"] in version
    assert loaded == "[]"


def test_both_programs_start(installed: Installed) -> None:
    version = installed.run("conformance", "--version")
    help_text = installed.run("duplex-eval", "--help")

    assert (version.returncode, help_text.returncode) == (0, 0), version.stderr + help_text.stderr
    assert PYPROJECT["project"]["version"] in version.stdout
    assert "generate" in help_text.stdout


def test_the_texts_of_the_requirements_are_installed(installed: Installed) -> None:
    script = "from conformance.requirements import requirement_texts\nprint(*sorted(requirement_texts()))"
    told = installed.run("python", "-c", script)

    assert told.returncode == 0, told.stderr
    assert set(told.stdout.split()) == {f"R{number}" for number in range(1, 64)}


def test_list_names_every_scenario_of_the_catalogue(installed: Installed) -> None:
    listed = installed.run("conformance", "list")

    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [one.id for one in load_catalogue()]


def test_scenarios_run_from_an_empty_folder(installed: Installed) -> None:
    made_here = [one.id for one in load_catalogue() if one.clip is not None and one.clip.dataset is None]
    some = list({name.split("/")[0]: name for name in made_here}.values())[:4]

    ran = installed.run("conformance", "run", *some, limit_s=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.rstrip().splitlines()[-1] == f"{len(some)} passed, 0 failed"


# What is pinned ------------------------------------------------------------------------------------------


def pins() -> dict[str, str]:
    lines = (PROJECT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def wanted() -> set[str]:
    """Every distribution that an install with all extras brings in here, the build backend included."""
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    todo = [Requirement(text) for text in (*project["dependencies"], *extras["dataset"], *extras["dev"])]
    todo += [Requirement(text) for text in PYPROJECT["build-system"]["requires"]]
    found: set[str] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        contexts = [{"extra": extra} for extra in ("", *requirement.extras)]
        if requirement.marker and not any(requirement.marker.evaluate(context) for context in contexts):
            continue
        if name not in found:
            found.add(name)
            todo += [Requirement(text) for text in metadata.requires(requirement.name) or ()]
    return found


def test_everything_that_is_installed_is_pinned() -> None:
    assert wanted() - set(pins()) == set()


def test_pins_are_names_and_versions_alone() -> None:
    text = (PROJECT / "constraints.txt").read_text("utf-8")

    odd = [
        line
        for line in text.splitlines()
        if not re.fullmatch(r"(#.*|[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*)", line)
    ]
    assert odd == []


def test_the_build_backend_is_the_pinned_one() -> None:
    (backend,) = PYPROJECT["build-system"]["requires"]

    assert backend == f"hatchling=={pins()['hatchling']}"
