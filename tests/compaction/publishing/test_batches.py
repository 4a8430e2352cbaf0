"""The order of a batch, and its size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.compaction.builders import a_chain, a_segment, epochs
from tests.compaction.looks import (
    LIMITS,
    a_look,
    a_row,
    replacement,
    shown,
    started,
    whole,
)
from tests.compaction.three_uploads import R, U, V, W, late
from tierfold.compaction.brokers.broker_view import BrokerSegment, BrokerView, Reference
from tierfold.compaction.brokers.cluster_configs import ConfigSource, ConfigValue
from tierfold.compaction.brokers.events import SegmentState
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.publishing.batches import batch_bytes_max
from tierfold.compaction.publishing.look import BATCH_BYTES_MAX
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import (
    Done,
    RefusalCode,
    Refused,
    Send,
)


def test_a_source_cut_in_several_descends() -> None:
    """SWAP.md 1, `trial_split.py`: ascending leaves a hole behind the first one's end."""
    first, second = replacement("1", 0, 4), replacement("2", 5, 9)
    row = a_row([first, second, V, W], [U])
    topic = [*whole(U, V, W), started(first), started(second)]
    step = next_step(a_look(row, topic))
    assert shown(step, first, second, U, names="12U") == [
        "FINISHED 2",
        "FINISHED 1",
        "DELETE_STARTED U",
    ]


def test_several_replacements_go_in_turn() -> None:
    """SWAP.md 1, `trial_in_turn.py`; V crosses the border between the two."""
    crossing = late("X", 5, 14)
    first, second = replacement("1", 0, 9), replacement("2", 10, 19)
    row = a_row([first, second, W], [U, crossing, V])
    topic = [*whole(U, crossing, V, W), started(first), started(second)]
    step = next_step(a_look(row, topic))
    assert shown(step, first, second, U, crossing, V, names="12UXV") == [
        "FINISHED 1",
        "DELETE_STARTED U",
        "FINISHED 2",
        "DELETE_STARTED X",
        "DELETE_STARTED V",
    ]


def test_a_group_without_an_order_is_refused() -> None:
    """The replacement lacks a leader epoch of what it replaces."""
    later = a_segment(10, 19, leader_epochs=epochs((1, 10)))
    lineage = epochs((0, 0), (1, 10))
    last = a_segment(20, 29, leader_epochs=epochs((1, 20)))
    look = a_look(
        a_row([R, last], [U, later]), [*whole(U, later, last), started(R)], lineage=lineage
    )
    step = next_step(look)
    assert isinstance(step, Refused)
    assert step.code is RefusalCode.NO_ORDER


def test_what_does_not_fit_goes_in_further_batches() -> None:
    sources = [a_segment(10 * n, 10 * n + 9) for n in range(20)]
    whole_log = replacement("R", 0, 199)
    row, topic = a_row([whole_log], sources), [*whole(*sources), started(whole_log)]
    limits = replace(LIMITS, batch_bytes_max=1000)
    sent: list[str] = []
    for _ in range(20):
        step = next_step(a_look(row, topic, limits=limits))
        if isinstance(step, Done):
            break
        assert isinstance(step, Send)
        sent += [event.segment_id for event in step.events]
        topic += step.events
    dropped = [segment_id for segment_id in sent if segment_id != whole_log.segment_id]
    assert sent[0] == whole_log.segment_id
    assert dropped == [one.segment_id for one in sources]


def test_a_batch_of_many_sources_looks_each_up_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *uploads, newest = a_chain(*[10] * 400)
    long = replacement("R", 0, uploads[-1].end_offset)
    topic = [*whole(*uploads, newest), started(long)]
    look = a_look(a_row([long, newest], uploads), topic, high_watermark=10**6)
    looked_up: list[int] = []
    references_in = PartitionFold.references_in

    def counted(fold: PartitionFold, epoch: int, first: int, last: int) -> list[Reference]:
        found = references_in(fold, epoch, first, last)
        looked_up.append(len(found))
        return found

    monkeypatch.setattr(PartitionFold, "references_in", counted)
    assert len(shown(next_step(look), long, *uploads, names=[*map(str, range(400))])) == 400
    assert sum(looked_up) < 20 * len(uploads)


def test_a_look_at_many_groups_sorts_what_brokers_have_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploads = a_chain(*[10] * 50)
    new = [replacement(f"{one.start_offset}", one.start_offset, one.end_offset) for one in uploads]
    look = a_look(a_row(new, uploads), whole(*uploads))
    asked: list[SegmentState] = []
    in_state = BrokerView.in_state

    def counted(view: BrokerView, state: SegmentState) -> tuple[BrokerSegment, ...]:
        asked.append(state)
        return in_state(view, state)

    monkeypatch.setattr(BrokerView, "in_state", counted)
    step = next_step(look)
    assert isinstance(step, Send)
    assert len(step.events) == len(new)
    assert len(asked) < 10


def test_a_topic_may_take_less_than_librdkafka_sends_whole() -> None:
    def limit(text: str) -> int:
        return batch_bytes_max({"max.message.bytes": ConfigValue(text, ConfigSource.TOPIC)})

    assert limit("300000") == 300_000
    assert limit("1048588") == BATCH_BYTES_MAX
    assert batch_bytes_max({}) == BATCH_BYTES_MAX
    with pytest.raises(UnreadableObject, match=r"for max\.message\.bytes"):
        limit("1 MB")
