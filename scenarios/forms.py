"""Forms that the parts of a scenario share: strictness, rules between keys, matchers, safe ids."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict

from scenarios import names
from scenarios.errors import Broken, impossible, known
from scenarios.matchers import COUNT, FLAG, MAYBE_COUNT, NUMBER, TEXT, log_matcher, matcher, matcher_of
from scenarios.rules import safe_id, seconds


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


def one_of_names(what: str, allowed: Collection[str]) -> AfterValidator:
    """A check of a mapping's keys, each for itself, so that what is wrong with the values is told as well.

    Args:
        what: what the names are of, for the message.
        allowed: the names; a misspelt one would be absent for every client.
    """

    def check(name: str) -> str:
        hold([Broken((), f"unknown {what} {name!r}", known(name, allowed))] if name not in allowed else [])
        return name

    return AfterValidator(check)


STRICT = ConfigDict(extra="forbid", frozen=True)
"""Unknown keys are errors; values do not change after loading."""

AccuracyKey = Annotated[str, one_of_names("key", names.ACCURACY_KEYS)]
Anomaly = Annotated[str, one_of_names("anomaly", names.ANOMALIES)]
Deadline = Annotated[str, one_of_names("deadline", names.DEADLINES)]
DiagnosticKey = Annotated[str, one_of_names("key", names.DIAGNOSTIC_KEYS)]
Floor = Annotated[str, one_of_names("mean", names.FLOORS)]
MetadataKey = Annotated[str, one_of_names("key", names.METADATA_KEYS)]
RunKey = Annotated[str, one_of_names("key", names.RUN_KEYS)]
TraceKey = Annotated[str, one_of_names("key", names.TRACE_KEYS)]
Verdict = Annotated[str, one_of_names("verdict", names.VERDICTS)]

Seconds = Annotated[float, AfterValidator(seconds)]
"""A deadline or a bound."""

SafeId = Annotated[str, AfterValidator(safe_id)]

Matcher = Annotated[Any, AfterValidator(matcher)]
"""A literal; `set` (a non-empty string, list or a true value); null; or one mapping of
`contains`, `not_contains`, `at_least`, `at_most`, `one_of`, all of which must hold."""
CountMatcher = Annotated[Any, AfterValidator(matcher_of(COUNT))]
"""A matcher for what is counted."""
MaybeCountMatcher = Annotated[Any, AfterValidator(matcher_of(MAYBE_COUNT))]
"""A matcher for what is counted where there is something to count."""
NumberMatcher = Annotated[Any, AfterValidator(matcher_of(NUMBER))]
"""A matcher for a number that may be absent."""
FlagMatcher = Annotated[Any, AfterValidator(matcher_of(FLAG))]
"""A matcher for true or false."""
TextMatcher = Annotated[Any, AfterValidator(matcher_of(TEXT))]
"""A matcher for text."""
LogMatcher = Annotated[Any, AfterValidator(log_matcher)]
"""A whole message, or a matcher in mapping form."""
