"""Whatever brokers deny or do not confirm is a refusal with both numbers, and leads on."""

from __future__ import annotations

import pytest

from tests.compaction.beside_brokers import refusal_beside, view_beside
from tests.compaction.broker_events import added, uploaded, view
from tests.compaction.builders import segment_id
from tests.compaction.uploads import a_row
from tierfold.compaction.brokers.epoch_ends import EpochEnd, NoAnswer, NotAllowed, UnknownEpoch
from tierfold.compaction.brokers.lineage import (
    EpochDenied,
    LineageHolds,
    LineageStatus,
    LogEndsBelow,
    NothingTiered,
    Unconfirmed,
    finished,
)
from tierfold.compaction.discovery.refused_by_lineage import refused_beside, refused_by_lineage
from tierfold.compaction.discovery.view import RefusalReason

CUT, DENIED = RefusalReason.TIER_BEYOND_LOG, RefusalReason.LINEAGE_DENIED
UNCONFIRMED = RefusalReason.LINEAGE_UNCONFIRMED
HAS = "the tier has leader epoch 1 up to offset 59, but "


def denied(found: EpochEnd | UnknownEpoch) -> EpochDenied:
    return EpochDenied(epoch=1, end_offset=59, found=found)


@pytest.mark.parametrize("status", [NothingTiered(), LineageHolds(end_offset=59)])
def test_a_lineage_that_holds_is_not_refused(status: LineageStatus) -> None:
    assert refused_by_lineage(status) is None


@pytest.mark.parametrize(
    ("status", "reason", "detail"),
    [
        (
            LogEndsBelow(high_watermark=30, end_offset=59),
            CUT,
            "the brokers' log ends at offset 29, the tier has offsets up to 59",
        ),
        (
            denied(EpochEnd(epoch=1, end_offset=40)),
            DENIED,
            f"{HAS}in the brokers' log it ends at offset 39",
        ),
        (
            denied(EpochEnd(epoch=0, end_offset=30)),
            DENIED,
            f"{HAS}the brokers' log has no such epoch: there epoch 0 ends at offset 29",
        ),
        (
            denied(UnknownEpoch()),
            DENIED,
            f"{HAS}the brokers' log has no such epoch, only older ones",
        ),
    ],
)
def test_a_log_that_was_cut_off_is_refused_with_both_numbers(
    status: LineageStatus, reason: RefusalReason, detail: str
) -> None:
    refusal = refused_by_lineage(status)
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == (reason, detail)
    remedy = refusal.at("/mnt/tier orders-0").remedy
    assert "`tierfold forget /mnt/tier orders-0 --dry-run`" in remedy


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (NotAllowed("Grant it with `kafka-acls.sh`."), "Grant it with `kafka-acls.sh`."),
        (
            NoAnswer("It has no leader."),
            "It has no leader. Run again once the partition has a leader that answers.",
        ),
    ],
)
def test_an_unconfirmed_lineage_waits_and_says_for_what(
    answer: NotAllowed | NoAnswer, remedy: str
) -> None:
    refusal = refused_by_lineage(Unconfirmed(epoch=1, end_offset=59, answer=answer))
    assert refusal is not None
    assert (refusal.reason, refusal.remedy) == (UNCONFIRMED, remedy)
    assert "leader epoch 1 up to offset 59" in refusal.detail


def test_segments_of_another_history_over_live_ones_are_named() -> None:
    assert refused_beside(()) is None
    refusal = refused_beside(finished(view(*uploaded("a", 30, 59)), 0))
    assert refusal is not None
    assert refusal.reason is RefusalReason.OUTSIDE_LINEAGE
    assert f"segment {segment_id('a')} (offsets 30 to 59)" in refusal.detail


def test_a_live_upload_that_brokers_never_finished_must_be_in_their_log() -> None:
    events = [*uploaded("live0", 0, 9), added("live10", 10, 19)]
    refusal = refusal_beside(a_row((0, 9), (10, 19)), [], events, high_watermark=12)
    assert refusal.reason is RefusalReason.TIER_BEYOND_LOG
    assert "the tier has offsets up to 19" in refusal.detail
    view_beside(a_row((0, 9), (10, 19)), [], events, high_watermark=20)
