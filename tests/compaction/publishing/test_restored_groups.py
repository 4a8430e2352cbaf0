"""What a restore brings back is sent from the end on: tombstones before what they hide.

    U    0 ─── 9                    V   10 ─── 19          uploads, retired
    A    0 ─── 9                    B   10 ─── 19          what a pass wrote of them, retired, too
    X    0 ─── 9                    Y   10 ─── 19          copies of U and V
"""

from __future__ import annotations

from dataclasses import replace

from tests.compaction.broker_events import LISTED
from tests.compaction.builders import a_segment
from tests.compaction.looks import a_look, a_row, given, own, replacement, shown, started, whole
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Done, Purpose, Send

U, V = a_segment(0, 9), a_segment(10, 19)
A, B = replacement("A", 0, 9), replacement("B", 10, 19)


def restored(name: str, start: int, end: int) -> Segment:
    return replacement("", start, end, segment_id=own(name, is_restored=True))


X, Y = restored("X", 0, 9), restored("Y", 10, 19)
ROW = a_row([X, Y], [U, V, A, B])
BEFORE = [*whole(U, V), *whole(A, B), given(U, LISTED), given(V, LISTED)]



def published(row: PartitionState, topic: list[Event]) -> list[list[str]]:
    """All sends until brokers have what the row says."""
    batches = []
    while (step := next_step(a_look(row, topic))) != Done():
        assert isinstance(step, Send), step
        batches.append(shown(step, A, B, X, Y, names="ABXY"))
        topic = [*topic, *step.events]
    return batches


def test_its_groups_descend() -> None:
    assert published(ROW, BEFORE) == [
        ["STARTED Y", "STARTED X"],
        ["FINISHED Y", "DELETE_STARTED B"],
        ["FINISHED X", "DELETE_STARTED A"],
    ]


def test_a_run_that_takes_over_descends() -> None:
    topic = [*BEFORE, started(X), started(Y)]
    assert published(ROW, topic)[0] == ["FINISHED Y", "DELETE_STARTED B"]


def test_one_that_is_finished_and_whose_source_is_not_listed_descends() -> None:
    topic = [*BEFORE, *whole(X, Y)]
    assert published(ROW, topic) == [
        ["FINISHED Y", "DELETE_STARTED B"],
        ["FINISHED X", "DELETE_STARTED A"],
    ]


def test_a_pass_beside_what_a_restore_has_published_ascends() -> None:
    first, later = replacement("A", 0, 9), restored("Y", 10, 19)
    third = replacement("B", 20, 29)
    old = restored("X", 0, 9), restored("Z", 20, 29)
    row = a_row([first, later, third], old)
    step = next_step(a_look(row, [*whole(*old), *whole(later), started(first), started(third)]))
    assert isinstance(step, Send)
    assert step.events[0].segment_id == first.segment_id


def test_by_versions_it_is_one_batch() -> None:
    row = replace(ROW, strategies=("timestamp",))
    assert published(row, BEFORE)[1:] == [
        ["FINISHED Y", "FINISHED X", "DELETE_STARTED A", "DELETE_STARTED B"]
    ]


def test_within_a_group_the_last_is_finished_first() -> None:
    one, two = replacement("A", 0, 7), replacement("B", 8, 19)
    row = a_row([X, Y], [U, V, one, two])
    topic = [*whole(U, V), *whole(two, one), given(U, LISTED), given(V, LISTED)]
    step = next_step(a_look(row, [*topic, started(X), started(Y)]))
    assert isinstance(step, Send)
    assert step.purpose is Purpose.SWAP
    assert shown(step, one, two, X, Y, names="ABXY") == [
        "FINISHED Y",
        "FINISHED X",
        "DELETE_STARTED A",
        "DELETE_STARTED B",
    ]
