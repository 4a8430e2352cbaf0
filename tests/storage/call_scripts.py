"""The script of a real store, table or catalog: what happens at which call, and all calls.

A rule names a step: `commit` is every call of `commit`, `commit 2` only the second one. Calls are
counted from 1 as they begin; number steps only where one thread makes the calls. The fakes that
share a script are numbered together, and a process that a rule has killed calls none of them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from tierfold.compaction.model.errors import UnreadableObject

Event = Callable[[], object]

NO_ANSWER: Final = UnreadableObject("no answer", where="the store", remedy="Look again.")


class Killed(BaseException):
    """The end of the process: no handler catches it, and later calls do nothing."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of an operation."""

    operation: str
    number: int
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    result: Any = None
    error: BaseException | None = None
    is_answered: bool = False
    """A rule has given the result: the real operation is not called."""

    def __str__(self) -> str:
        return f"{self.operation} {self.number}"


def _nothing(_call: Call) -> None:
    """No event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What happens at one step, before and after the real operation; either may raise."""

    step: str
    before: Callable[[Call], object] = _nothing
    after: Callable[[Call], object] = _nothing
    is_meant: Callable[..., bool] = lambda *_: True
    """Whether the rule is for a call with these arguments."""

    def where(self, is_meant: Callable[..., bool]) -> Rule:
        """The rule, for calls with such arguments only."""
        return replace(self, is_meant=is_meant)

    def is_for(self, call: Call) -> bool:
        """Whether the call is the rule's step."""
        return self.step in {call.operation, str(call)} and self.is_meant(*call.arguments)


def at(step: str, event: Event, *, is_done: bool = False) -> Rule:
    """Something else happens right before the call; `is_done`: right after it took effect."""

    def happens(_call: Call) -> None:
        event()

    return Rule(step=step, after=happens) if is_done else Rule(step=step, before=happens)


def fails(step: str, error: BaseException = NO_ANSWER, *, is_done: bool = False) -> Rule:
    """The call fails; `is_done`: it took effect, and the answer is lost."""

    def raised() -> None:
        raise error

    return at(step, raised, is_done=is_done)


def killed(step: str, *, is_done: bool = False) -> Rule:
    """The process ends right before the call, or right after it took effect."""
    return fails(step, Killed(), is_done=is_done)


def changes(step: str, change: Callable[[Call], object]) -> Rule:
    """The call takes effect, and another result is returned."""

    def changed(call: Call) -> None:
        call.result = change(call)

    return Rule(step=step, after=changed)


def instead(step: str, answer: Callable[[Call], object]) -> Rule:
    """The call does not take effect; this answers it."""

    def answered(call: Call) -> None:
        call.result, call.is_answered = answer(call), True

    return Rule(step=step, before=answered)


class Script:
    """Applies rules, in their order, and keeps the calls."""

    def __init__(self, *rules: Rule) -> None:
        self.calls: list[Call] = []
        self._rules = rules
        self._numbers: Counter[str] = Counter()
        self._is_dead = False

    def of(self, *operations: str) -> list[Call]:
        """The calls of these operations, in the order in which they began."""
        return [call for call in self.calls if call.operation in operations]

    def results(self, operation: str) -> list[Any]:
        """The result of each call of the operation; None where it failed before it took effect."""
        return [call.result for call in self.of(operation)]

    def attach(self, fake: object, real: object, operations: Iterable[str]) -> None:
        """Make these operations of `fake` those of `real`, under this script."""
        for name in operations:
            # Not `setattr`: a store is frozen.
            object.__setattr__(fake, name, self.around(name, getattr(real, name)))

    def around(self, operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method under this script."""

        def called(*arguments: Any, **named: Any) -> Any:
            with self.during(operation, *arguments, **named) as call:
                if not call.is_answered:
                    call.result = method(*arguments, **named)
            return call.result

        return called

    @contextmanager
    def during(self, operation: str, *arguments: Any, **named: Any) -> Iterator[Call]:
        """Apply the rules before and after the block, which is the call."""
        if self._is_dead:
            raise Killed
        self._numbers[operation] += 1
        number = self._numbers[operation]
        call = Call(operation=operation, number=number, arguments=arguments, named=named)
        self.calls.append(call)
        rules = [rule for rule in self._rules if rule.is_for(call)]
        try:
            for rule in rules:
                rule.before(call)
            yield call
            for rule in rules:
                rule.after(call)
        except BaseException as error:
            call.error = error
            if isinstance(error, Killed):
                self._is_dead = True
            raise
