"""What no file of the project may hold: each rule with its reason, and with sources that break it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
PACKAGES = ("client", "mockserver", "scenarios", "conformance")

MODULE_LINES = 400
FUNCTION_LINES = 60
"""Longest body of a function, its docstring not counted (nor the options of a command in its signature)."""

Rule = Callable[[ast.Module], Iterator[tuple[int, str]]]
"""A rule gives (line, what it saw) for each place that breaks it."""

ALLOWED: dict[str, dict[str, str]] = {
    "broad except": {
        "client/retry.py: except Exception": "any exception is its sample's failure (evaluation.md 14, row 14)",
        "client/judge/evaluation.py: except Exception": "what a decoder raises is its sample's failure, told in full",
        "client/plain_socket.py: except Exception": "raised in the task that listens, never in the transport's read",
        "client/run.py: except Exception": "what a decoder raises is its sample's failure, told in full",
        "client/teardown.py: except Exception": "kept, and raised after the last step of the teardown (R8)",
        "mockserver/incoming.py: except Exception": "a bug of ours is raised where the connection is served",
        "conformance/cli.py": "a bug of ours ends the program with a code of its own, told with its stack",
        "conformance/clock/transport.py": "what a protocol raises ends its connection, as in asyncio",
        "conformance/clients/python_module.py": "a module of others may raise anything; told with its file",
        "conformance/fuzz/play.py": "a bug of ours becomes a finding of its own, told with its stack",
        "conformance/runner.py": "a bug of ours becomes a harness error of its scenario, told with its stack",
        "conformance/capture.py": "what a hook of ours raises in the client's stack is kept as an error of ours",
        "conformance/killing.py": "what breaks in a child process is told to its parent, with its stack",
    },
    "compiled code": {
        "conformance/defects/rewrite.py": "a defect is a rewrite of the client's own source",
    },
    "other clock": {
        "conformance/clock/": "the clock itself: real time bounds its waits for sockets, holds and livelocks",
        "conformance/runner.py": "real time a scenario took: printed, never judged",
        "conformance/session.py": "real time a run took: printed, never judged",
        "conformance/live/session.py": "when a live run began and ended: printed, never judged",
        "conformance/live/slots.py": "pauses between runs, in which nothing is played",
        "conformance/live/preflight.py": "this machine's clock against the loop's: a jump is told",
        "conformance/defects/matrix.py": "real time the matrix took: printed, never judged",
        "conformance/defects/ablation_report.py": "real time the ablation took: printed, never judged",
        "conformance/fuzz/": "real and processor time of campaigns: a bound on searching, printed, never judged",
    },
    "long function": {},
    "loose wait": {},
    "hidden chance": {
        "conformance/serve_options.py: secrets": "a token that could be guessed from the seed would be none",
    },
}
"""Rule -> how `file: what was seen` begins -> why the rule does not hold there."""


def called_name(node: ast.Call) -> str:
    """The dotted name that is called, or "" when it is no plain name."""
    return ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""


def imported_from(tree: ast.Module, module: str) -> dict[str, str]:
    """Local name -> name in `module`, for every `from module import name`."""
    return {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module and not node.level
        for alias in node.names
    }


def imported_as(tree: ast.Module, module: str) -> set[str]:
    """Local names of a whole module, for every `import module [as name]`."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == module
    }


def uses_of(tree: ast.Module, module: str, names: set[str] | None) -> Iterator[tuple[int, str]]:
    """Every use of these names of a module (None: any lower-case name), however they were imported."""
    wholes, direct = imported_as(tree, module), imported_from(tree, module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in wholes:
            name = node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in direct:
            name = direct[node.id]
        else:
            continue
        if name in names if names is not None else name.islower():
            yield node.lineno, f"{module}.{name}"


def broad_except(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Everything caught, and not raised again: a failure that nobody will hear of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            wide = node.type is None or re.search(r"\b(Base)?Exception\b", caught)
            raises_again = any(isinstance(last, ast.Raise) and last.exc is None for last in node.body[-1:])
            if wide and not raises_again:
                yield node.lineno, f"except {caught}"
        elif isinstance(node, ast.Call) and called_name(node).split(".")[-1] == "suppress":
            for argument in node.args:
                if re.search(r"\b(Base)?Exception\b", ast.unparse(argument)):
                    yield node.lineno, ast.unparse(node)


def compiled_code(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Text or bytes that become code, or a shell's command."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = called_name(node)
        if name in {"eval", "exec", "compile", "builtins.eval", "builtins.exec"}:
            yield node.lineno, name
        if re.fullmatch(
            r"(pickle|marshal|shelve|dill|cloudpickle)\.(load|loads|open)|os\.(system|popen)", name
        ):
            yield node.lineno, name
        if any(word.arg == "shell" and ast.unparse(word.value) != "False" for word in node.keywords):
            yield node.lineno, f"{name}(shell=...)"


def unsafe_yaml(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """YAML that can construct objects."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = called_name(node)
            loader = next((ast.unparse(word.value) for word in node.keywords if word.arg == "Loader"), "")
            if re.fullmatch(r"yaml\.(unsafe|full)_load(_all)?", name):
                yield node.lineno, name
            if re.fullmatch(r"yaml\.(load|load_all)", name) and "Safe" not in loader:
                yield node.lineno, f"{name}({loader})"
        if isinstance(node, ast.Attribute) and re.fullmatch(
            r"yaml\.C?(Unsafe|Full)?Loader", ast.unparse(node)
        ):
            yield node.lineno, ast.unparse(node)


CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"},
    "datetime": {"now", "utcnow", "today"},
}


def other_clock(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Time that is not the loop's: it stands still, or runs on, when virtual time jumps."""
    yield from uses_of(tree, "time", CLOCKS["time"])
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = called_name(node)
            if re.search(r"\b(datetime|date)\.(now|utcnow|today)$", name):
                yield node.lineno, name


def loose_wait(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Waits that hang when the awaited code swallows its cancellation (design.md section 4)."""
    yield from uses_of(tree, "asyncio", {"wait_for", "timeout", "timeout_at", "TaskGroup"})


def hidden_chance(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Randomness that no seed decides: the same seed must give the same trace."""
    yield from uses_of(tree, "random", None)
    yield from uses_of(tree, "random", {"SystemRandom"})
    yield from uses_of(tree, "uuid", {"uuid1", "uuid4"})
    yield from uses_of(tree, "os", {"urandom"})
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called_name(node).endswith("Random") and not node.args:
            yield node.lineno, f"{called_name(node)}() without a seed"
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if isinstance(node, ast.Import | ast.ImportFrom) and "secrets" in names:
            yield node.lineno, "secrets"


def long_function(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """A function that no longer fits on a screen."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        documented = ast.get_docstring(node, clean=False) is not None
        body = node.body[1:] if documented else node.body
        lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        if lines > FUNCTION_LINES:
            yield node.lineno, f"{node.name} has {lines} lines"


RULES: dict[str, tuple[Rule, tuple[str, ...]]] = {
    "broad except": (broad_except, PACKAGES),
    "compiled code": (compiled_code, PACKAGES),
    "unsafe yaml": (unsafe_yaml, PACKAGES),
    "other clock": (other_clock, PACKAGES),
    "loose wait": (loose_wait, ("client",)),
    "hidden chance": (hidden_chance, ("client", "mockserver", "scenarios", "conformance")),
    "long function": (long_function, PACKAGES),
}
"""Name -> the rule and the packages it holds for."""


def sources(*packages: str) -> Iterator[tuple[str, str]]:
    """(path below the project, text) of every module of these packages."""
    for package in packages:
        for path in sorted((PROJECT / package).rglob("*.py")):
            yield path.relative_to(PROJECT).as_posix(), path.read_text("utf-8")


@pytest.mark.parametrize("name", RULES)
def test_no_module_breaks_the_rule(name: str) -> None:
    rule, packages = RULES[name]
    excused = ALLOWED.get(name, {})

    seen = [
        (f"{path}: {what}", f"{path}:{line}: {what}")
        for path, text in sources(*packages)
        for line, what in rule(ast.parse(text))
    ]
    broken = [where for place, where in seen if not place.startswith(tuple(excused))]
    assert broken == [], rule.__doc__
    idle = [excuse for excuse in excused if not any(place.startswith(excuse) for place, _ in seen)]
    assert idle == [], "an excuse that nothing needs"


BREAKS = [
    ("broad except", "try:\n    f()\nexcept:\n    pass"),
    ("broad except", "try:\n    f()\nexcept (ValueError, Exception):\n    x = 1"),
    ("broad except", "try:\n    f()\nexcept BaseException as error:\n    print(error)"),
    ("broad except", "import contextlib\nwith contextlib.suppress(Exception):\n    f()"),
    ("compiled code", "eval('1')"),
    ("compiled code", "exec(text)"),
    ("compiled code", "compile(text, 'x', 'exec')"),
    ("compiled code", "import pickle\npickle.loads(data)"),
    ("compiled code", "import subprocess\nsubprocess.run('ls', shell=True)"),
    ("unsafe yaml", "import yaml\nyaml.load(text)"),
    ("unsafe yaml", "import yaml\nyaml.load(text, Loader=yaml.FullLoader)"),
    ("unsafe yaml", "import yaml\nyaml.unsafe_load(text)"),
    ("other clock", "import time\nstart = time.monotonic()"),
    ("other clock", "import time as clock\nstart = clock.time()"),
    ("other clock", "from time import perf_counter as now\nstart = now()"),
    ("other clock", "def f(clock=None):\n    import time\n    clock = time.monotonic"),
    ("other clock", "import time\ntime.sleep(1)"),
    ("other clock", "import datetime\ndatetime.datetime.now()"),
    ("other clock", "from datetime import datetime\ndatetime.now(tz)"),
    ("loose wait", "import asyncio\nasync def f():\n    await asyncio.wait_for(g(), 1)"),
    ("loose wait", "from asyncio import timeout\nasync def f():\n    async with timeout(1):\n        pass"),
    ("hidden chance", "import random\nrandom.choice([1])"),
    ("hidden chance", "import random\nrandom.Random()"),
    ("hidden chance", "from random import randint\nrandint(1, 2)"),
    ("hidden chance", "import uuid\nuuid.uuid4()"),
    ("hidden chance", "import secrets"),
    ("long function", "def f():\n" + "    x = 1\n" * 61),
    ("long function", 'def f():\n    """words"""\n' + "    x = 1\n" * 61),
]
KEEPS = [
    ("broad except", "try:\n    f()\nexcept BaseException:\n    undo()\n    raise"),
    ("broad except", "try:\n    f()\nexcept (OSError, MyException):\n    pass"),
    ("compiled code", "import re\nre.compile('x')"),
    ("compiled code", "import subprocess\nsubprocess.run(['ls'], shell=False)"),
    ("unsafe yaml", "import yaml\nyaml.safe_load(text)\nyaml.compose(text, Loader=yaml.SafeLoader)"),
    ("other clock", "import asyncio\nnow = asyncio.get_running_loop().time()"),
    ("other clock", "event.time()\nrow.date"),
    ("loose wait", "import asyncio\nasync def f():\n    await asyncio.wait({t}, timeout=1)"),
    ("hidden chance", "import random\nrandom.Random(7).choice([1])"),
    ("long function", "def f():\n" + "    x = 1\n" * 60),
    ("long function", 'def f():\n    """\n' + "words\n" * 80 + '    """\n    return 1'),
]


@pytest.mark.parametrize(("name", "source"), BREAKS)
def test_a_source_that_breaks_the_rule_is_seen(name: str, source: str) -> None:
    assert list(RULES[name][0](ast.parse(source))) != []


@pytest.mark.parametrize(("name", "source"), KEEPS)
def test_a_source_that_keeps_the_rule_is_left_alone(name: str, source: str) -> None:
    assert list(RULES[name][0](ast.parse(source))) == []


def test_modules_are_short_enough_to_read() -> None:
    long = {path: text.count("\n") for path, text in sources(*PACKAGES) if text.count("\n") > MODULE_LINES}

    assert long == {}


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    drawers = [
        path for path, _ in sources(*PACKAGES) if Path(path).stem in {"utils", "util", "helpers", "misc"}
    ]

    assert drawers == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [path for path, text in sources(*PACKAGES) if not ast.get_docstring(ast.parse(text))]

    assert silent == []


def test_test_modules_have_names_of_their_own() -> None:
    names = [path.name for path in (PROJECT / "tests").rglob("test_*.py")]

    assert len(names) == len(set(names))


# What no file may say ------------------------------------------------------------------------------------

# Put together from pieces, so that this file does not say it either.
FORBIDDEN: dict[str, re.Pattern[str]] = {
    "a path of one machine": re.compile(
        "|".join(
            [
                r"(?<![\w.~])/(?:ho" + r"me|Us" + r"ers)/\w",
                r"(?<![\w.])/ro" + r"ot(?:/|\b)",
                r"(?<![\w.*/-])/wo" + r"rk(?:/|\b)(?!-)",
                r"[A-Z]:\\Us" + r"ers\\",
            ]
        )
    ),
    "the address of a registry": re.compile(
        "|".join(
            host.replace(".", r"\.")
            for host in (
                "pypi" + ".org",
                "python" + "hosted.org",
                "registry" + ".npmjs",
                "docker" + ".io",
                "ghcr" + ".io",
                "quay" + ".io",
                "conda" + ".anaconda",
                "hf" + "-mirror",
            )
        )
    ),
    "a tool of one author": re.compile(
        "|".join(["cla" + "ude", "anthro" + "pic", "co" + "pilot", "chat" + "gpt"]), re.IGNORECASE
    ),
}
BINARY = {".wav", ".mp4", ".parquet", ".jpg", ".png", ".whl", ".gz"}


def project_files() -> list[Path]:
    """Every file that belongs to the project: what git knows, or the whole folder where there is no git."""
    listed = subprocess.run(
        ["git", "-C", str(PROJECT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        return [PROJECT / name for name in listed.stdout.decode().split("\0") if name]
    made = {"dist", "build", "out", "conformance-out", "__pycache__"}
    return [
        path
        for path in PROJECT.rglob("*")
        if path.is_file()
        and not any(
            part in made or (part.startswith(".") and part != ".ci")
            for part in path.relative_to(PROJECT).parts[:-1]
        )
    ]


def forbidden_in(text: str) -> list[str]:
    """What a text says that it must not, with the words themselves."""
    return [f"{what}: {match[0]}" for what, pattern in FORBIDDEN.items() for match in pattern.finditer(text)]


def test_no_file_speaks_of_one_machine_or_of_a_registry() -> None:
    files = [path for path in project_files() if path.suffix not in BINARY and path.is_file()]

    said = {}
    for path in files:
        if found := forbidden_in(path.read_text("utf-8", errors="replace")):
            said[path.relative_to(PROJECT).as_posix()] = found
    assert said == {}
    assert len(files) > 20


@pytest.mark.parametrize(
    "text",
    [
        "see /ho" + "me/alice/notes",
        "cd /ro" + "ot",
        "in /wo" + "rk/main",
        "from https://files.python" + "hosted.org/x.whl",
        "index https://pypi" + ".org/simple",
        "written by Cla" + "ude",
    ],
)
def test_words_that_must_not_be_said_are_seen(text: str) -> None:
    assert forbidden_in(text) != []


@pytest.mark.parametrize(
    "text",
    [
        "the framework/base",
        "$HOME/x",
        "response_root/split",
        "a/work-tree",
        "network/workers",
        "https://example.org",
    ],
)
def test_words_that_may_be_said_are_left_alone(text: str) -> None:
    assert forbidden_in(text) == []
