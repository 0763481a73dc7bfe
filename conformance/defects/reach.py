"""Which defects a scenario can show at all: those whose changed place its run with the reference client comes to.

A run in virtual time is decided by scenario and seed (design.md section 4). Where it never comes to the place that a
defect changes, the client with the defect does the very same, so there is nothing to run. This halves the matrix.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence

from conformance.defects.rewrite import (
    Definition,
    Rewrite,
    RewriteError,
    blocks_of,
    compiled,
    matches_of,
    source_of,
)

_MARK = "__conformance_reached__"


@contextlib.contextmanager
def watched(changes: Mapping[str, Sequence[Rewrite]]) -> Iterator[set[str]]:
    """The client with a mark at every place that a change would touch, for as long as the block lasts.

    Args:
        changes: rewrites by the name of the change.
    Yields: the names whose place was come to since the set was last cleared. A change that does not fit the client's
        source is not watched; `fits()` tells.
    """
    by_function: dict[str, list[tuple[str, Rewrite]]] = {}
    for name, rewrites in changes.items():
        for rewrite in rewrites:
            by_function.setdefault(rewrite.function, []).append((name, rewrite))
    reached: set[str] = set()
    with contextlib.ExitStack() as undo:
        for where, named in by_function.items():
            try:
                original, definition = source_of(where)
            except RewriteError:
                continue
            _mark(definition, named)
            undo.callback(setattr, original, "__code__", original.__code__)
            original.__code__ = compiled(original, definition, f"<{where}, watched>")
            original.__globals__[_MARK] = reached.add
            undo.callback(original.__globals__.pop, _MARK, None)
        yield reached


def fits(rewrites: Sequence[Rewrite]) -> bool:
    """Whether a change is watched whole: each of its functions is there."""
    for rewrite in rewrites:
        try:
            source_of(rewrite.function)
        except RewriteError:
            return False
    return True


def _mark(definition: Definition, named: Sequence[tuple[str, Rewrite]]) -> None:
    """Put a call that tells the name at every match; a rewrite of what another one leaves marks the whole function."""
    statements: dict[int, list[str]] = {}
    expressions: dict[int, list[str]] = {}
    whole: list[str] = []
    for name, rewrite in named:
        found = matches_of(definition, rewrite)
        if not found:
            whole.append(name)
        for node in found:
            (expressions if isinstance(node, ast.expr) else statements).setdefault(id(node), []).append(name)

    class Wrap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            self.generic_visit(node)
            names = expressions.get(id(node), ())
            if not names or not isinstance(node, ast.expr):
                return node
            told = ast.Tuple([*(_call(name) for name in names), node], ast.Load())
            return ast.copy_location(ast.Subscript(told, ast.Constant(-1), ast.Load()), node)

    for block in list(blocks_of(definition)):
        block[:] = [
            statement
            for original in block
            for statement in (*(_told(name) for name in statements.get(id(original), ())), original)
        ]
    Wrap().visit(definition)
    definition.body[:0] = [_told(name) for name in whole]


def _call(name: str) -> ast.Call:
    return ast.Call(ast.Name(_MARK, ast.Load()), [ast.Constant(name)], [])


def _told(name: str) -> ast.stmt:
    return ast.Expr(_call(name))
