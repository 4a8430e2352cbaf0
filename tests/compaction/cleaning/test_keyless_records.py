"""How many records without a key may be dropped, and the message if there are more."""

from __future__ import annotations

import pytest

from tierfold.compaction.cleaning.rounds import too_many_keyless
from tierfold.compaction.model.rules import Rules


@pytest.mark.parametrize(
    ("without_key", "most"), [(0, None), (10**12, None), (0, 0), (2, 2), (2, 3)]
)
def test_records_up_to_the_limit_may_be_dropped(without_key: int, most: int | None) -> None:
    assert too_many_keyless(without_key, 10**12, Rules(compact_keyless_max=most)) == ""


@pytest.mark.parametrize(
    ("without_key", "most", "begin"),
    [(1, 0, "1 of 9 records has"), (2, 1, "2 of 9 records have"), (3, 2, "3 of 9 records have")],
)
def test_beyond_the_limit_the_round_stops_and_says_what_to_do(
    without_key: int, most: int, begin: str
) -> None:
    assert too_many_keyless(without_key, 9, Rules(compact_keyless_max=most)) == (
        f"{begin} no key and would be dropped, but compact.keyless.max allows {most}; nothing was"
        " changed. If they may be dropped, raise compact.keyless.max; if not, remove compact from"
        " the topic's cleanup.policy."
    )
