"""Which passes of a served row consumers have seen long enough, horizon by horizon.

Kafka promises that a reader that goes from the start to the end within `delete.retention.ms` sees
every tombstone of what it has read. Kafka's readers see a pass at once. Here they see it when it is
published, so a tombstone's delete horizon is not enough: its pass must be published that long.

    a horizon counts from the first pass that has it, is published, and has spared nothing

Passes are in the order of their epochs, and so are their horizons: each pass has those that no
earlier one has, up to its `Pass.horizon_ms`; the newest has all that follow.

Rule: PUBLISHING 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.model.serving import Pass
from tierfold.compaction.model.units import TIMESTAMP_MS_MAX

NONE_PASSED: Final = -(2**63) + 1
"""A limit of delete horizons: none has passed."""


def with_pass(
    passes: Sequence[Pass], *, epoch: int, earliest_ms: int, has_spared: bool
) -> tuple[Pass, ...]:
    """The passes once a round was committed under `epoch`: its pass is the newest, unpublished.

    `earliest_ms`: the earliest delete horizon that the round set, or found in what brokers wrote.
    From there on horizons count from this pass; those before it do not begin again. The rounds of
    one epoch are one pass.
    """
    earlier = with_found([one for one in passes if one.epoch != epoch], earliest_ms)
    newest = Pass(epoch=epoch, horizon_ms=None, published_at_ms=None, has_spared=has_spared)
    return (*earlier, newest)


def with_found(passes: Sequence[Pass], earliest_ms: int) -> tuple[Pass, ...]:
    """The passes once delete horizons were found that none of them has, from `earliest_ms` on.

    They count from the next pass.
    """
    return tuple(replace(one, horizon_ms=min(_last_ms(one), earliest_ms - 1)) for one in passes)


def published(passes: Sequence[Pass], at_ms: int) -> tuple[Pass, ...]:
    """The passes once all of them are published, as was read back at `at_ms`."""
    return tuple(
        replace(one, published_at_ms=at_ms) if one.published_at_ms is None else one
        for one in passes
    )


def remembered(passes: Sequence[Pass], earliest_live_ms: int | None) -> tuple[Pass, ...]:
    """The passes without those from which no delete horizon in a live segment counts.

    `earliest_live_ms`: the earliest delete horizon in live segments; None: none is known.
    Horizons that are still found later count from a later pass, which only lets them wait. What
    was published last is kept: it says that the row was published at all.
    """
    newest = max((one.epoch for one in passes if one.published_at_ms is not None), default=0)
    return tuple(
        one
        for one in passes
        if one.epoch >= newest
        or (earliest_live_ms is not None and _last_ms(one) >= earliest_live_ms)
    )


def counting_pass(passes: Sequence[Pass], horizon_ms: int) -> Pass | None:
    """The pass from which the delete horizon counts; None: it is yet to be published.

    A pass that spared a record that a tombstone hides does not count: the next one does.
    """
    for one in passes:
        is_seen = one.published_at_ms is not None and not one.has_spared
        if is_seen and _last_ms(one) >= horizon_ms:
            return one
    return None


def published_until_ms(passes: Sequence[Pass], retention_ms: int, now_ms: int) -> int:
    """The latest delete horizon that counts from a pass that was published `retention_ms` ago.

    `NONE_PASSED`: no horizon does.
    """
    until_ms = NONE_PASSED
    for one in passes:
        if one.published_at_ms is None or one.has_spared:
            continue
        if now_ms - one.published_at_ms < retention_ms:
            break
        until_ms = _last_ms(one)
    return until_ms


def _last_ms(one: Pass) -> int:
    return TIMESTAMP_MS_MAX if one.horizon_ms is None else one.horizon_ms


def is_unpublished(state: PartitionState) -> bool:
    """Whether a pass is not noted as published, so that `NotePublished` would note something.

    Nothing is known of passes that were committed before brokers served the row, if there were any.
    """
    if not state.passes:
        return state.cleaner_offset is not None
    return any(one.published_at_ms is None for one in state.passes)
