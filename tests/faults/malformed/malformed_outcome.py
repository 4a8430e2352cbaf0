"""The allowed outcomes of malformed input: a clear error or a right answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, TypeVar

from tests.faults.malformed.malformed_reference import LeftOpen
from tierfold.compaction.model.errors import TierfoldError

_Answer = TypeVar("_Answer")
_Input = TypeVar("_Input")


class Outcome(StrEnum):
    """The two allowed outcomes; anything else is an exception."""

    REFUSED = "refused"
    RIGHT = "right"


class WrongAnswer(Exception):
    """A parser's answer differs from the meaning of the bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """One parser of the product, its malformed inputs, and its check."""

    name: str
    made: Callable[[Random], Any]
    """Draws an input from the RNG alone."""
    checked: Callable[[Any], Outcome]
    """Checks the parser on an input; raises `WrongAnswer`, or the parser's unclear error."""
    decompresses: bool = False
    """It may use as much memory as a compressed payload claims to need."""
    share: int = 1
    """Its weight when inputs are divided among the parsers."""

    def tried(self, seed: int, number: int) -> Outcome:
        """Check input `number` of a seed."""
        return self.checked(self.made(self.rng(seed, number)))

    def rng(self, seed: int, number: int) -> Random:
        """Return the RNG of an input."""
        return Random(f"{self.name} {seed} {number}")


def comparison(
    read: Callable[[_Input], _Answer], plain: Callable[[_Input], _Answer]
) -> Callable[[_Input], Outcome]:
    """Return a parser's check: `compared` for an input that both functions take."""
    return lambda given: compared(lambda: read(given), lambda: plain(given))


def compared(read: Callable[[], _Answer], plain: Callable[[], _Answer]) -> Outcome:
    """Call `read`, the product's parser: it must raise a clear error, or agree with `plain`."""
    try:
        found = read()
    except TierfoldError as error:
        return refused(error)
    with contextlib.suppress(LeftOpen):
        must_equal(found, plain())
    return Outcome.RIGHT


def refused(error: TierfoldError) -> Outcome:
    """Check that an error says what is wrong, where, and what to do."""
    is_whole = all(part.strip() for part in (error.what, error.where, error.remedy))
    if not is_whole or " ()" in error.what:  # The cause's message was empty.
        raise WrongAnswer(f"an error with empty parts: {error!r}")
    if "more memory than there is" in error.what:
        raise WrongAnswer(f"a small input needs too much memory: {error!r}")
    return Outcome.REFUSED


def must_equal(found: object, expected: object) -> None:
    """Raise `WrongAnswer` if the two differ."""
    if found != expected:
        raise WrongAnswer(f"found    {found!r}\nexpected {expected!r}")
