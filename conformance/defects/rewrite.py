"""Put a defect into one named function of the client, by rewriting the syntax tree of its current source.

The rewrite must match exactly the stated number of places: when the client changes under a defect, the defect complains
instead of silently changing nothing.
"""

from __future__ import annotations
import __future__ as future_flags

import ast
import contextlib
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


class RewriteError(Exception):
    """A defect does not fit the client's current source; the message names the function and what was found."""


@dataclass(frozen=True)
class Rewrite:
    """Replace one snippet by another inside one function.

    Args:
        function: `module:qualified.name`, such as `client.teardown:close_session`.
        old: a statement, several statements, or an expression, compared as syntax, not as text.
        new: what stands there instead, of the same kind; empty statements are spelled `pass`.
        places: how often `old` must occur, no more and no less.
    """

    function: str
    old: str
    new: str
    places: int = 1


def rewritten(rewrites: Sequence[Rewrite]) -> tuple[FunctionType, CodeType]:
    """The function that all these rewrites name, and its new code; nothing is changed yet.

    Args:
        rewrites: of one function; each is applied to what the one before left.
    Raises RewriteError: no such function, it is a closure, or `old` does not occur exactly `places` times.
    """
    where = rewrites[0].function
    original, definition = source_of(where)
    for rewrite in rewrites:
        found = _replace(definition, rewrite)
        if found != rewrite.places:
            old = " ".join(rewrite.old.split())
            raise RewriteError(f"{where}: {old!r} occurs {found} time(s), expected {rewrite.places}")
    return original, compiled(original, definition, f"<{where} with a defect>")


Definition = ast.FunctionDef | ast.AsyncFunctionDef


def source_of(where: str) -> tuple[FunctionType, Definition]:
    """A function of the client by `module:qualified.name`, and the syntax tree of its source.

    Raises RewriteError: no such function, or it is a closure.
    """
    original = _locate(where)
    if original.__code__.co_freevars:
        raise RewriteError(f"{where}: a closure cannot be rewritten alone")
    tree = ast.parse(textwrap.dedent(inspect.getsource(original)))
    definition = tree.body[0]
    assert isinstance(definition, Definition)
    return original, definition


def compiled(original: FunctionType, definition: Definition, filename: str) -> CodeType:
    """The code of a changed definition, to take the place of the original's."""
    definition.decorator_list = []
    tree = ast.fix_missing_locations(ast.Module([definition], []))
    module = compile(tree, filename, "exec", flags=future_flags.annotations.compiler_flag, dont_inherit=True)
    code = next(c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == definition.name)
    return code.replace(co_qualname=original.__code__.co_qualname)


def expressions_of(rewrite: Rewrite) -> tuple[ast.expr, ast.expr] | None:
    """Old and new where both are a single expression; None: statements take the place of statements."""
    old, new = statements_of(rewrite)
    if len(old) == len(new) == 1 and isinstance(old[0], ast.Expr) and isinstance(new[0], ast.Expr):
        return old[0].value, new[0].value
    return None


def statements_of(rewrite: Rewrite) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Old and new, parsed."""
    old = ast.parse(textwrap.dedent(rewrite.old).strip())
    new = ast.parse(textwrap.dedent(rewrite.new).strip())
    return old.body, new.body


def matches_of(definition: ast.AST, rewrite: Rewrite) -> list[ast.stmt] | list[ast.expr]:
    """The places that a rewrite would change in a tree: expressions, or the first statement of each."""
    pair = expressions_of(rewrite)
    if pair is not None:
        found = [n for n in ast.walk(definition) if isinstance(n, ast.expr) and same(n, pair[0])]
        if found:
            return found
    old, _ = statements_of(rewrite)
    return [
        block[at]
        for block in blocks_of(definition)
        for at in range(len(block) - len(old) + 1)
        if all(same(one, other) for one, other in zip(block[at : at + len(old)], old, strict=True))
    ]


def blocks_of(root: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements in a tree."""
    for node in ast.walk(root):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def _locate(where: str) -> FunctionType:
    module_name, _, path = where.partition(":")
    found: Any = importlib.import_module(module_name)
    for name in path.split("."):
        found = inspect.getattr_static(found, name, None)
        if isinstance(found, staticmethod | classmethod):
            found = found.__func__
        elif isinstance(found, property):
            found = found.fget
    if not isinstance(found, FunctionType):
        raise RewriteError(f"{where}: no function of that name")
    return found


def _replace(definition: ast.AST, rewrite: Rewrite) -> int:
    pair = expressions_of(rewrite)
    if pair is not None:
        found = _replace_expression(definition, *pair)
        if found:
            return found
    return _replace_statements(definition, *statements_of(rewrite))


def same(one: ast.AST, other: ast.AST) -> bool:
    """Whether two pieces of source mean the same text."""
    return type(one) is type(other) and ast.dump(one) == ast.dump(other)


def _replace_expression(root: ast.AST, old: ast.expr, new: ast.expr) -> int:
    found = 0

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            nonlocal found
            if isinstance(node, ast.expr) and same(node, old):
                found += 1
                return ast.copy_location(new, node)
            return self.generic_visit(node)

    Swap().visit(root)
    return found


def _replace_statements(root: ast.AST, old: list[ast.stmt], new: list[ast.stmt]) -> int:
    found = 0
    for block in list(blocks_of(root)):
        at = 0
        while at + len(old) <= len(block):
            if all(same(one, other) for one, other in zip(block[at : at + len(old)], old, strict=True)):
                block[at : at + len(old)] = new
                found += 1
                at += len(new)
            else:
                at += 1
    return found


@contextlib.contextmanager
def applied(rewrites: tuple[Rewrite, ...]) -> Iterator[None]:
    """The client with a defect, for as long as the block lasts.

    The code of the function object is swapped, so every module that imported the function by name gets the
    defect too. All rewrites are made before the first one takes effect: one that does not fit changes nothing.
    """
    by_function: dict[str, list[Rewrite]] = {}
    for rewrite in rewrites:
        by_function.setdefault(rewrite.function, []).append(rewrite)
    ready = [rewritten(group) for group in by_function.values()]
    with contextlib.ExitStack() as undo:
        for function, code in ready:
            undo.callback(setattr, function, "__code__", function.__code__)
            function.__code__ = code
        yield
