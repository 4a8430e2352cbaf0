"""Records are folded per partition, go on where they ended, and say what forbids publishing."""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random

import pytest

from tests.compaction.broker_events import (
    FINISHED,
    GONE,
    LISTED,
    OTHER_KEY,
    STARTED,
    added,
    drawn_topic,
    records,
    updated,
    uploaded,
    view,
)
from tests.compaction.builders import KEY, segment_id
from tierfold.compaction.brokers.broker_view import Naming, ReadOnly, ReadOnlyCause
from tierfold.compaction.brokers.event_bytes import encode
from tierfold.compaction.brokers.events import Event
from tierfold.compaction.brokers.metadata_fold import MetadataFold, MetadataRecord
from tierfold.compaction.brokers.metadata_partitions import metadata_partition

A, B, X = (segment_id(name) for name in "abx")
UPLOAD = uploaded("a", 0, 9)
DELETED: list[Event] = [*UPLOAD, updated("a", LISTED), updated("a", GONE)]
NEWER = b"\x02" + encode(UPLOAD[1])[1:]
WITH_FIELDS = encode(UPLOAD[1])[:-1] + b"\x01\x07\x03abc"
NO_TOPIC = encode(UPLOAD[1]).replace(KEY.topic.encode(), b"/" * len(KEY.topic))


def test_partitions_are_folded_apart() -> None:
    fold = MetadataFold(1)
    fold.apply(records(*UPLOAD, *(event._replace(key=OTHER_KEY) for event in DELETED)))
    assert fold.partitions() == (KEY, OTHER_KEY)
    assert list(fold.view(KEY).segments) == [A]
    other = fold.view(OTHER_KEY)
    assert other.key == OTHER_KEY
    assert dict(other.segments) == {}
    # A deleted topic is known by its last event.
    assert (other.last_offset, other.last_timestamp_ms) == (5, 1005)
    assert (fold.view(KEY).last_offset, fold.view(KEY).last_timestamp_ms) == (1, 1001)


def test_a_topic_that_is_created_again_is_another_one() -> None:
    again = replace(KEY, topic_id="U" * 21 + "A")
    fold = MetadataFold(1)
    fold.apply(records(*UPLOAD, *(event._replace(key=again) for event in uploaded("b", 0, 9))))
    assert list(fold.view(KEY).segments) == [A]
    assert list(fold.view(again).segments) == [B]


def test_a_partition_without_records_has_nothing() -> None:
    fold = MetadataFold(1)
    empty = fold.view(KEY)
    assert fold.naming(KEY) == {}
    assert fold.partitions() == ()
    assert (empty.segments, empty.last_offset, empty.last_timestamp_ms) == ({}, None, None)
    assert empty.find(0, 0) is None


def test_a_view_does_not_change_with_later_records() -> None:
    fold = MetadataFold(1)
    fold.apply(records(*UPLOAD))
    before = fold.view(KEY)
    fold.apply(records(*DELETED[2:], begin=2))
    assert before == view(*UPLOAD)
    assert before.find(0, 5) is not None


@pytest.mark.parametrize("seed", range(20))
def test_reading_in_parts_gives_the_same_view(seed: int) -> None:
    events = drawn_topic(Random(seed))
    fold = MetadataFold(1)
    for event in events:
        fold.apply(records(event, begin=fold.next_offset(0)))
    whole = MetadataFold(1)
    whole.apply(records(*events))
    assert fold.partitions() == whole.partitions()
    assert [fold.view(key) for key in fold.partitions()] == [
        whole.view(key) for key in whole.partitions()
    ]


def test_reading_goes_on_behind_the_last_record_and_never_back() -> None:
    fold = MetadataFold(50)
    assert fold.next_offset(3) == 0
    fold.apply([MetadataRecord(3, 7, 0, encode(UPLOAD[0]), None)])
    assert (fold.next_offset(3), fold.next_offset(4)) == (8, 0)
    with pytest.raises(ValueError, match="offset 7 of metadata partition 3 comes after offset 7"):
        fold.apply([MetadataRecord(3, 7, 0, encode(UPLOAD[0]), None)])
    fold.apply([MetadataRecord(4, 0, 0, encode(UPLOAD[0]), None)])


def test_only_wanted_partitions_are_kept() -> None:
    fold = MetadataFold(50, [KEY])
    number = metadata_partition(KEY, 50)
    other = [event._replace(key=OTHER_KEY) for event in UPLOAD]
    fold.apply([record._replace(metadata_partition=number) for record in records(*other)])
    assert fold.partitions() == (KEY,)
    assert fold.view(KEY).last_offset is None
    assert fold.view(KEY).read_only == ()
    for refused in (lambda: fold.view(OTHER_KEY), lambda: fold.ask(OTHER_KEY, [A])):
        with pytest.raises(KeyError):
            refused()
    assert MetadataFold(3, [OTHER_KEY, KEY]).partitions() == (KEY, OTHER_KEY)


def test_ids_that_were_asked_about_are_found_to_be_named_or_not() -> None:
    fold = MetadataFold(1)
    fold.ask(KEY, [A, B, X])
    assert set(fold.naming(KEY).values()) == {Naming.NEVER_NAMED}
    fold.apply(records(*DELETED, *UPLOAD, added("b", 10, 19), updated("b", GONE)))
    # Brokers drop an update of a segment whose start is lost: they do not have it.
    fold.apply(records(updated("x", FINISHED), begin=fold.next_offset(0)))
    assert fold.naming(KEY) == {A: Naming.NAMED, B: Naming.NAMED, X: Naming.NEVER_NAMED}


def test_another_partition_names_other_segments() -> None:
    fold = MetadataFold(1)
    fold.ask(KEY, [A])
    fold.apply(records(*(event._replace(key=OTHER_KEY) for event in UPLOAD)))
    assert fold.naming(KEY) == {A: Naming.NEVER_NAMED}


def test_what_was_forgotten_before_the_question_is_not_denied() -> None:
    fold = MetadataFold(1)
    fold.apply(records(*UPLOAD))
    fold.ask(KEY, [A, X])
    assert fold.naming(KEY) == {A: Naming.NAMED, X: Naming.NEVER_NAMED}
    fold = MetadataFold(1)
    fold.apply(records(*UPLOAD, *DELETED[2:]))
    fold.ask(KEY, [X])
    assert fold.naming(KEY) == {X: Naming.ASKED_LATE}
    fold.apply(records(added("x", 10, 19), begin=fold.next_offset(0)))
    assert fold.naming(KEY) == {X: Naming.NAMED}


def test_an_update_without_its_start_forgets_nothing() -> None:
    fold = MetadataFold(1)
    fold.apply(records(*UPLOAD, updated("b", LISTED)))
    fold.ask(KEY, [B])
    assert fold.naming(KEY) == {B: Naming.NEVER_NAMED}


def test_what_was_made_since_was_not_named_before() -> None:
    fold = MetadataFold(1)
    gone = (updated("b", LISTED), updated("b", GONE))
    fold.apply(records(*UPLOAD, added("b", 10, 19), *gone))
    fold.ask_new(KEY, [A, X])
    assert fold.naming(KEY) == {A: Naming.NAMED, X: Naming.NEVER_NAMED}
    fold.apply(records(added("x", 10, 19), begin=fold.next_offset(0)))
    fold.ask_new(KEY, [X])
    assert fold.naming(KEY)[X] is Naming.NAMED
    with pytest.raises(KeyError):
        MetadataFold(1, [OTHER_KEY]).ask_new(KEY, [A])


def test_a_second_question_keeps_the_first_answer() -> None:
    fold = MetadataFold(1)
    fold.ask(KEY, [A, X])
    fold.apply(records(*DELETED, updated("b", LISTED)))
    fold.ask(KEY, [A, X])
    assert fold.naming(KEY) == {A: Naming.NAMED, X: Naming.NEVER_NAMED}


def reasons(*values: Event | bytes | None) -> list[tuple[ReadOnlyCause, int]]:
    """Why `KEY` is read-only after these records, and the offset of each."""
    return [(reason.cause, reason.offset) for reason in view(*values).read_only]


def test_a_record_that_stops_brokers_makes_all_partitions_read_only() -> None:
    for value in (None, b"", encode(added("a", 5, 4))):
        assert reasons(*UPLOAD, value) == [(ReadOnlyCause.STOPS_BROKERS, 2)]
    again = updated("b", STARTED, key=OTHER_KEY)
    started = added("b", 0, 9, key=OTHER_KEY)
    assert reasons(started, again) == [(ReadOnlyCause.STOPS_BROKERS, 1)]
    assert reasons(again) == []  # Brokers drop it.


def test_a_record_that_is_not_known_makes_all_partitions_read_only() -> None:
    assert reasons(*UPLOAD, NEWER) == [(ReadOnlyCause.UNKNOWN_RECORD, 2)]


def test_unknown_fields_make_only_their_partition_read_only() -> None:
    fold = MetadataFold(1)
    other = [event._replace(key=OTHER_KEY) for event in UPLOAD]
    fold.apply(records(*other, UPLOAD[0], WITH_FIELDS))
    (reason,) = fold.view(KEY).read_only
    assert (reason.cause, reason.offset) == (ReadOnlyCause.UNKNOWN_FIELDS, 3)
    # What is known of the event counts.
    assert fold.view(KEY).find(0, 5) is not None
    assert fold.view(OTHER_KEY).read_only == ()


def test_an_event_in_another_metadata_partition_makes_its_partition_read_only() -> None:
    fold = MetadataFold(50)
    right = metadata_partition(KEY, 50)
    fold.apply(record._replace(metadata_partition=right) for record in records(*UPLOAD))
    assert fold.view(KEY).read_only == ()
    wrong = (right + 1) % 50
    fold.apply([records(updated("a", LISTED))[0]._replace(metadata_partition=wrong)])
    assert fold.view(KEY).read_only == (
        ReadOnly(
            cause=ReadOnlyCause.MISPLACED,
            metadata_partition=wrong,
            offset=0,
            why=f"belongs to metadata partition {right}",
        ),
    )


def test_a_keyed_record_makes_all_partitions_read_only() -> None:
    fold = MetadataFold(1)
    first, last = records(*UPLOAD)
    fold.apply([first, last._replace(key=b"")])
    (reason,) = fold.view(KEY).read_only
    assert (reason.cause, reason.offset) == (ReadOnlyCause.KEYED, 1)
    assert fold.view(KEY).find(0, 5) is not None


def test_a_record_that_brokers_skip_makes_nothing_read_only() -> None:
    assert reasons(*UPLOAD, NO_TOPIC) == []


def test_only_the_first_record_of_each_cause_is_kept() -> None:
    assert reasons(NEWER, None, NEWER, None, WITH_FIELDS, WITH_FIELDS) == [
        (ReadOnlyCause.UNKNOWN_RECORD, 0),
        (ReadOnlyCause.STOPS_BROKERS, 1),
        (ReadOnlyCause.UNKNOWN_FIELDS, 4),
    ]


def test_other_metadata_partitions_are_not_concerned() -> None:
    fold = MetadataFold(50)
    other = (metadata_partition(KEY, 50) + 1) % 50
    fold.apply([MetadataRecord(other, 0, 0, None, None)])
    assert fold.view(KEY).read_only == ()


@pytest.mark.parametrize("cause", ReadOnlyCause)
def test_each_cause_is_a_sentence_that_says_where_and_what_to_do(cause: ReadOnlyCause) -> None:
    reason = ReadOnly(cause=cause, metadata_partition=7, offset=12, why="has a key")
    assert str(reason).startswith(
        "The record at offset 12 of __remote_log_metadata-7 has a key. "
    )
    assert str(reason).count(".") >= 3


def test_memory_grows_with_the_segments_that_exist() -> None:
    def folded(uploads: int) -> int:
        fold = MetadataFold(1)
        for number in range(uploads):
            start = 10 * number
            name = f"s{number}"
            events = [*uploaded(name, start, start + 9), updated(name, LISTED), updated(name, GONE)]
            fold.apply(records(*events, begin=4 * number))
        return reachable_bytes(fold)

    assert folded(400) < folded(20) * 1.1


def reachable_bytes(thing: object) -> int:
    """The memory of a value and all that it holds."""
    seen: dict[int, object] = {}
    waiting = [thing]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen[id(value)] = value
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        else:
            waiting += list(getattr(value, "__dict__", {}).values())
            slots = getattr(type(value), "__slots__", ())
            waiting += [getattr(value, name) for name in slots if hasattr(value, name)]
    return sum(sys.getsizeof(value) for value in seen.values())
