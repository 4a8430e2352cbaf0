"""How many records without a key may go, and the message where more would."""

from __future__ import annotations

import pytest

from tierfold.compaction.cleaning.keyless_records import TooManyKeyless, too_many_keyless
from tierfold.compaction.model.rules import Rules


@pytest.mark.parametrize(
    ("without_key", "most"), [(0, None), (10**12, None), (0, 0), (2, 2), (2, 3)]
)
def test_up_to_the_limit_they_go_and_without_one_all_do(without_key: int, most: int | None) -> None:
    assert too_many_keyless(without_key, 10**12, Rules(compact_keyless_max=most)) is None


@pytest.mark.parametrize(("without_key", "most"), [(1, 0), (3, 2)])
def test_beyond_the_limit_the_round_stops(without_key: int, most: int) -> None:
    found = too_many_keyless(without_key, 9, Rules(compact_keyless_max=most))
    assert found == TooManyKeyless(without_key=without_key, records_in=9, most=most)


def test_the_reason_says_how_many_what_bounds_them_and_what_to_do() -> None:
    found = TooManyKeyless(without_key=1, records_in=9, most=0)
    assert found.reason == (
        "1 of 9 records has no key and would be dropped, compact.keyless.max allows 0; nothing was"
        " changed. If they may go, raise compact.keyless.max; if not, take compact out of the"
        " topic's cleanup.policy."
    )
    several = TooManyKeyless(without_key=2, records_in=9, most=1)
    assert several.reason.startswith("2 of 9 records have no key")
