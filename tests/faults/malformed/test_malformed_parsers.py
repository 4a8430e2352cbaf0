"""Every parser under some twenty thousand malformed inputs: refused clearly, or read right.

`python -m tests.faults.malformed.malformed_run` does a million of them, with limits and checked
bounds.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.malformed.malformed_outcome import Outcome
from tests.faults.malformed.malformed_parsers import PARSERS, dealt

SEED = 2026
INPUTS = dealt(20_000, tuple(PARSERS.values()))


@pytest.mark.parametrize("name", PARSERS)
def test_malformed_input_is_refused_clearly_or_read_right(name: str) -> None:
    parser, outcomes = PARSERS[name], Counter[Outcome]()
    for number in range(INPUTS[name]):
        try:
            outcomes[parser.tried(SEED, number)] += 1
        except Exception as error:
            error.add_note(f"{name}: seed {SEED}, input {number}")
            raise
    # Both are met often, or the inputs test nothing.
    assert min(outcomes[each] for each in Outcome) > INPUTS[name] / 50
