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
    original = _locate(where)
    if original.__code__.co_freevars:
        raise RewriteError(f"{where}: a closure cannot be rewritten alone")
    tree = ast.parse(textwrap.dedent(inspect.getsource(original)))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    for rewrite in rewrites:
        found = _replace(definition, rewrite)
        if found != rewrite.places:
            old = " ".join(rewrite.old.split())
            raise RewriteError(f"{where}: {old!r} occurs {found} time(s), expected {rewrite.places}")
    definition.decorator_list = []
    ast.fix_missing_locations(tree)
    filename = f"<{where} with a defect>"
    module = compile(tree, filename, "exec", flags=future_flags.annotations.compiler_flag, dont_inherit=True)
    code = next(c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == definition.name)
    return original, code.replace(co_qualname=original.__code__.co_qualname)


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
    old = ast.parse(textwrap.dedent(rewrite.old).strip())
    new = ast.parse(textwrap.dedent(rewrite.new).strip())
    if (
        len(old.body) == 1
        and isinstance(old.body[0], ast.Expr)
        and len(new.body) == 1
        and isinstance(new.body[0], ast.Expr)
    ):
        found = _replace_expression(definition, old.body[0].value, new.body[0].value)
        if found:
            return found
    return _replace_statements(definition, old.body, new.body)


def _same(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)


def _replace_expression(root: ast.AST, old: ast.expr, new: ast.expr) -> int:
    found = 0

    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            nonlocal found
            if isinstance(node, ast.expr) and _same(node, old):
                found += 1
                return ast.copy_location(new, node)
            return self.generic_visit(node)

    Swap().visit(root)
    return found


def _replace_statements(root: ast.AST, old: list[ast.stmt], new: list[ast.stmt]) -> int:
    found = 0
    for node in ast.walk(root):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            at = 0
            while at + len(old) <= len(block):
                if all(_same(one, other) for one, other in zip(block[at : at + len(old)], old, strict=True)):
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
