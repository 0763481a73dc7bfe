"""Validation errors of pydantic turned into what was found and what is allowed, at a path of the file."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from scenarios.errors import Broken, known, shown

_Path = tuple[str | int, ...]
_TYPES: Mapping[str, str] = {
    "string_type": "text (numbers and true/false in quotes)",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def problems_of(error: ValidationError, root: _Path, annotation: Any) -> Iterable[tuple[_Path, str, str]]:
    """What an error says, as (path, found, allowed).

    Args:
        error: of validating the value at `root`.
        root: path of that value in the file.
        annotation: its type, to name the keys a mapping may have.
    """
    for detail in error.errors(include_url=False):
        location: _Path = tuple(step for step in detail["loc"] if not _is_noise(step))
        path = root + location
        kind = detail["type"]
        context = detail.get("ctx", {})
        if kind == "impossible":
            for broken in context["broken"]:
                assert isinstance(broken, Broken)
                yield path + broken.path, broken.found, broken.allowed
        elif kind == "extra_forbidden":
            key = str(location[-1])
            yield path, f"unknown key {key!r}", known(key, _keys(annotation, location[:-1]))
        elif kind == "missing":
            yield path, "missing", "required"
        elif kind == "literal_error":
            yield path, shown(detail["input"]), f"one of {context['expected']}"
        elif kind in _BOUNDS:
            bound, words = _BOUNDS[kind]
            yield path, shown(detail["input"]), f"{words} {context[bound]:.10g}"
        else:
            yield path, shown(detail["input"]), _TYPES.get(kind, detail["msg"])


def _is_noise(step: str | int) -> bool:
    """Steps pydantic adds for its own validators; no key of a scenario looks like them."""
    return isinstance(step, str) and (step.startswith("function-") or step == "[key]")


def _keys(annotation: Any, location: _Path) -> list[str]:
    """The keys of the model that stands at a location below a type."""
    for step in location:
        annotation = _inner(annotation, step)
    model = _model(annotation)
    return list(model.model_fields) if model is not None else []


def _inner(annotation: Any, step: str | int) -> Any:
    for candidate in _options(annotation):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            if step in candidate.model_fields:
                return candidate.model_fields[str(step)].annotation
        elif get_origin(candidate) in (list, dict):
            return get_args(candidate)[-1]
    return Any


def _model(annotation: Any) -> type[BaseModel] | None:
    for candidate in _options(annotation):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
