"""What may be deleted of a partition whose log was truncated, and of segments set apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import BINDINGS, a_chain, a_segment, a_view, listed, segment_id
from tierfold.compaction.deletion.deletion_plan import VacuumLimits, deletion_plan_of
from tierfold.compaction.model.bindings import Binding, Detached
from tierfold.compaction.model.rules import Rules

NOW_MS: Final = 100 * 86_400_000
ORDER: Final = VacuumLimits(now_ms=NOW_MS, takes_set_apart=True)
CHAIN: Final = a_chain(10, 10, 10)


RULES: Final = Rules(
    cleanup_policy=frozenset({"delete"}),
    retention_ms=1,
    retention_written=frozenset({"retention_ms"}),
)
"""Everything is old enough to be deleted."""


@pytest.mark.parametrize("binding", BINDINGS)
def test_nothing_of_a_log_that_was_cut_off_expires(binding: Binding) -> None:
    view = a_view(CHAIN)
    vacuumed = deletion_plan_of(view, RULES, binding, ORDER, is_refused=True)
    assert (vacuumed.is_nothing, vacuumed.log_start_offset, vacuumed.notes) == (True, 0, ())
    usual = deletion_plan_of(view, RULES, binding, ORDER)
    assert bool(usual.expired) is (isinstance(binding, Detached))
    assert usual.notes


def test_segments_that_are_set_apart_go_there_too() -> None:
    apart = listed(a_segment(25, 35, segment_id=segment_id("apart")))
    view = replace(a_view(CHAIN), set_apart=(apart,))
    vacuumed = deletion_plan_of(view, RULES, Detached(), ORDER, is_refused=True)
    assert vacuumed.set_apart == (apart,)
