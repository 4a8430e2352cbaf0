"""Every parser refuses malformed input clearly or reads it correctly: ten thousand inputs.

`python -m tests.faults.malformed.malformed_run` runs 1.3 million, with limits and checked bounds.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.faults.malformed.malformed_outcome import Outcome
from tests.faults.malformed.malformed_parsers import PARSERS, inputs_by_parser

SEED = 2026
INPUTS = inputs_by_parser(13_000, tuple(PARSERS.values()))


@pytest.mark.parametrize("name", PARSERS)
def test_malformed_input_is_refused_clearly_or_read_correctly(name: str) -> None:
    parser, outcomes = PARSERS[name], Counter[Outcome]()
    for number in range(INPUTS[name]):
        try:
            outcomes[parser.tried(SEED, number)] += 1
        except Exception as error:
            error.add_note(f"{name}: seed {SEED}, input {number}")
            raise
    # If one outcome is rare, the inputs test nothing.
    assert min(outcomes[outcome] for outcome in Outcome) > INPUTS[name] / 50
