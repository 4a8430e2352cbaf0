"""What may come of malformed input: a clear error or a right answer, and nothing else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from tests.faults.malformed.malformed_reference import LeftOpen
from tierfold.compaction.model.errors import TierfoldError

_Told = TypeVar("_Told")

_MEMORY: Final = Path("/dev/shm")
SCRATCH: Final = str(_MEMORY) if os.access(_MEMORY, os.W_OK) else None
"""Where small files go, by the hundred thousand: a disk would have each of them written out."""


class Outcome(StrEnum):
    """The two allowed ones; anything else is an exception."""

    REFUSED = "refused"
    RIGHT = "right"


class WrongAnswer(Exception):
    """A parser said something that the bytes do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """One parser of the product, its malformed inputs, and its judge."""

    name: str
    made: Callable[[Random], Any]
    """An input; everything about it is the dice's."""
    judged: Callable[[Any], Outcome]
    """Raises `WrongAnswer`, or whatever the parser let through that is no clear error."""
    decompresses: bool = False
    """May take what a compressed payload is believed to hold."""
    share: int = 1
    """Its weight among the parsers when inputs are dealt."""

    def tried(self, seed: int, number: int) -> Outcome:
        """Judges input `number` of a seed."""
        return self.judged(self.made(self.rng(seed, number)))

    def rng(self, seed: int, number: int) -> Random:
        """What an input is made of."""
        return Random(f"{self.name} {seed} {number}")


def held(read: Callable[[], _Told], plain: Callable[[], _Told]) -> Outcome:
    """`read` is the product's answer; where it is none of its clear errors `plain` must agree."""
    try:
        found = read()
    except TierfoldError as error:
        return refused(error)
    with contextlib.suppress(LeftOpen):
        must_equal(found, plain())
    return Outcome.RIGHT


def refused(error: TierfoldError) -> Outcome:
    """The error says what, where and what to do."""
    is_whole = all(part.strip() for part in (error.what, error.where, error.remedy))
    if not is_whole or " ()" in error.what:  # A cause was to be named, and had no words.
        raise WrongAnswer(f"an error with nothing in it: {error!r}")
    if "more memory than there is" in error.what:
        raise WrongAnswer(f"a small input asked for it: {error!r}")
    return Outcome.REFUSED


def must_equal(found: object, expected: object) -> None:
    """Raises `WrongAnswer` where the two differ."""
    if found != expected:
        raise WrongAnswer(f"found    {found!r}\nexpected {expected!r}")
