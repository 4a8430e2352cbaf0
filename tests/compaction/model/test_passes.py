"""A delete horizon counts from the pass that set it, once that pass is published."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierfold.compaction.model.passes import (
    NONE_PASSED,
    counting_pass,
    published,
    published_until_ms,
    remembered,
    with_pass,
)
from tierfold.compaction.model.serving import Pass
from tierfold.compaction.model.units import TIMESTAMP_MS_MAX

DAY: Final = 10
"""`delete.retention.ms` of the tests."""


def a_pass(epoch: int, horizon_ms: int | None, published_at_ms: int | None, **fields: bool) -> Pass:
    return Pass(
        epoch=epoch,
        horizon_ms=horizon_ms,
        published_at_ms=published_at_ms,
        has_spared=fields.get("has_spared", False),
    )


TWO: Final = (a_pass(1, 19, 5), a_pass(2, None, 25))
"""The first set horizon 15, the second 20."""


@pytest.mark.parametrize(
    ("now_ms", "until_ms"),
    [(14, NONE_PASSED), (15, 19), (34, 19), (35, TIMESTAMP_MS_MAX)],
)
def test_a_horizon_waits_for_the_publication_of_its_pass(now_ms: int, until_ms: int) -> None:
    assert published_until_ms(TWO, DAY, now_ms) == until_ms


def test_a_pass_counts_no_earlier_than_those_before_it() -> None:
    """A clock was set back between the two publications."""
    turned = (a_pass(1, 19, 25), a_pass(2, None, 5))
    assert published_until_ms(turned, DAY, 34) == NONE_PASSED
    assert published_until_ms(turned, DAY, 35) == TIMESTAMP_MS_MAX


def test_a_later_pass_does_not_begin_it_again() -> None:
    after = with_pass(TWO, epoch=3, earliest_ms=30, has_spared=False)
    assert [one.horizon_ms for one in after] == [19, 29, None]
    assert published_until_ms(after, DAY, 35) == 29
    assert counting_pass(published(after, 40), 15) == after[0]


def test_rounds_of_one_epoch_are_one_pass() -> None:
    once = with_pass(TWO, epoch=3, earliest_ms=30, has_spared=True)
    twice = with_pass(once, epoch=3, earliest_ms=30, has_spared=False)
    assert twice == with_pass(TWO, epoch=3, earliest_ms=30, has_spared=False)
    assert len(twice) == 3


def test_an_earlier_horizon_that_a_pass_finds_counts_from_it() -> None:
    after = with_pass(TWO, epoch=3, earliest_ms=12, has_spared=False)
    assert [one.horizon_ms for one in after] == [11, 11, None]
    assert counting_pass(after, 15) is None


def test_a_pass_that_spared_counts_for_no_horizon_and_the_next_for_all_before_it() -> None:
    spared = (a_pass(1, 19, 5, has_spared=True), TWO[1])
    assert published_until_ms(spared, DAY, 34) == NONE_PASSED
    assert counting_pass(spared, 15) == TWO[1]
    assert published_until_ms(spared, DAY, 35) == TIMESTAMP_MS_MAX


def test_publication_is_noted_once() -> None:
    noted = published((TWO[0], a_pass(2, None, None)), 25)
    assert noted == TWO
    assert published(noted, 99) == TWO


@pytest.mark.parametrize(
    ("earliest_ms", "epochs"), [(None, [2, 3]), (19, [1, 2, 3]), (20, [2, 3])]
)
def test_passes_older_than_every_live_horizon_are_forgotten(
    earliest_ms: int | None, epochs: list[int]
) -> None:
    passes = with_pass(TWO, epoch=3, earliest_ms=30, has_spared=False)
    assert [one.epoch for one in remembered(passes, earliest_ms)] == epochs


@dataclass
class Model:
    """Each horizon beside the number of the pass that set or found it; nothing is forgotten."""

    horizons: list[tuple[int, int]] = field(default_factory=list)
    published_at: dict[int, int] = field(default_factory=dict)
    spared: set[int] = field(default_factory=set)

    def may_go(self, horizon_ms: int, number: int, now_ms: int) -> bool:
        """Whether consumers have seen a whole pass, this one or a later one, for long enough."""
        times = [
            at_ms
            for one, at_ms in self.published_at.items()
            if one >= number and one not in self.spared
        ]
        return horizon_ms <= now_ms and any(now_ms - at_ms >= DAY for at_ms in times)


PASSES: Final = st.lists(
    st.tuples(
        st.integers(1, 12),  # Until the next pass.
        st.sampled_from([DAY, DAY, 2, 30]),  # The retention when its horizon is set.
        st.none() | st.integers(0, 60),  # A horizon that it finds in an upload.
        st.booleans(),  # It spares.
        st.none() | st.integers(0, 8),  # Its publication is read back so much later.
    ),
    max_size=8,
)


@given(PASSES, st.integers(0, 40))
def test_no_horizon_counts_before_its_pass_was_seen_long_enough(
    drawn: list[tuple[int, int, int | None, bool, int | None]], waits: int
) -> None:
    model, passes, now_ms = Model(), tuple[Pass, ...](), 0
    for number, (apart, retention, found, spares, later) in enumerate(drawn, start=1):
        now_ms += apart
        new = [now_ms + retention, *([] if found is None else [found])]
        model.horizons += [(horizon, number) for horizon in new]
        if spares:
            model.spared.add(number)
        passes = with_pass(passes, epoch=number, earliest_ms=min(new), has_spared=spares)
        if later is not None:
            now_ms += later
            open_ones = [one.epoch for one in passes if one.published_at_ms is None]
            model.published_at |= dict.fromkeys(open_ones, now_ms)
            passes = published(passes, now_ms)
        _agrees(model, passes, now_ms)
        limit = min(now_ms, published_until_ms(passes, DAY, now_ms))
        model.horizons = [known for known in model.horizons if known[0] > limit]
        passes = remembered(passes, min((known[0] for known in model.horizons), default=None))
    _agrees(model, passes, now_ms + waits)
    if drawn and drawn[-1][4] is not None and not drawn[-1][3]:
        # Nothing waits for ever: the last pass is published, so all that has come to its end goes.
        assert published_until_ms(passes, DAY, now_ms + DAY) == TIMESTAMP_MS_MAX


def _agrees(model: Model, passes: tuple[Pass, ...], now_ms: int) -> None:
    until_ms = published_until_ms(passes, DAY, now_ms)
    for horizon, number in model.horizons:
        if horizon <= min(now_ms, until_ms):
            assert model.may_go(horizon, number, now_ms), (horizon, number, passes)


@given(PASSES, st.integers(0, 40))
def test_with_one_retention_the_passes_say_exactly_what_the_model_says(
    drawn: list[tuple[int, int, int | None, bool, int | None]], waits: int
) -> None:
    model, passes, now_ms = Model(), tuple[Pass, ...](), 0
    for number, (apart, _, _, spares, later) in enumerate(drawn, start=1):
        now_ms += apart
        model.horizons.append((now_ms + DAY, number))
        if spares:
            model.spared.add(number)
        passes = with_pass(
            passes, epoch=number, earliest_ms=now_ms + DAY, has_spared=spares
        )
        if later is not None:
            now_ms += later
            open_ones = [one.epoch for one in passes if one.published_at_ms is None]
            model.published_at |= dict.fromkeys(open_ones, now_ms)
            passes = published(passes, now_ms)
    now_ms += waits
    limit = min(now_ms, published_until_ms(passes, DAY, now_ms))
    for horizon, number in model.horizons:
        assert (horizon <= limit) == model.may_go(horizon, number, now_ms)
