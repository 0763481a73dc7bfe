"""Forms that the parts of a scenario share: strictness, rules between keys, matchers, safe ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict

from scenarios.errors import Broken, impossible
from scenarios.rules import log_matcher, matcher, safe_id


def hold(broken: Iterable[Broken]) -> None:
    """Raise what is broken, all of it at once."""
    if found := list(broken):
        raise impossible(found)


def holding(rules: Callable[[Any], Iterable[Broken]]) -> AfterValidator:
    """A validator that raises what rules find broken."""

    def check(value: Any) -> Any:
        hold(rules(value))
        return value

    return AfterValidator(check)


STRICT = ConfigDict(extra="forbid", frozen=True)
"""Unknown keys are errors; values do not change after loading."""

SafeId = Annotated[str, AfterValidator(safe_id)]

Matcher = Annotated[Any, AfterValidator(matcher)]
"""A literal; `set` (a non-empty string, list or a true value); null; or one mapping of
`contains`, `not_contains`, `at_least`, `at_most`, `one_of`, all of which must hold."""
LogMatcher = Annotated[Any, AfterValidator(log_matcher)]
"""A whole message, or a matcher in mapping form."""
