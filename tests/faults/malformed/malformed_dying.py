"""A child for tests of the long run: its parser crashes, hangs, takes all memory or lies."""

from __future__ import annotations

import ctypes
from random import Random

from tests.faults.malformed import malformed_child
from tests.faults.malformed.malformed_child import main
from tests.faults.malformed.malformed_outcome import Outcome, Parser, compared
from tests.faults.malformed.malformed_parsers import PARSERS


def _number(rng: Random) -> int:
    """Find the input's number by its RNG."""
    made = {Random(f"dying 1 {number}").random(): number for number in range(7)}
    return made.get(rng.random(), -1)


def _checked(number: int) -> Outcome:
    match number:
        case 1:
            ctypes.string_at(0)
        case 3:
            sum(range(10**12))  # In C, so Python's signal handlers do not run.
        case 4:
            bytearray(2**40)
        case 5:
            return compared(lambda: 1, lambda: 2)
    return Outcome.RIGHT


if __name__ == "__main__":
    malformed_child.CPU_SECONDS_MAX = 0.5
    PARSERS["dying"] = Parser(name="dying", made=_number, checked=_checked)
    main()
