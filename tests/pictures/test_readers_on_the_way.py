"""No reader of a served log sees a value without its tombstone, whenever it sets out.

A reader goes from the start to the end within `delete.retention.ms`, while passes are made and
published, and local copies end. What it has in the end is what the whole log says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.pictures.cleaning import RULES
from tests.pictures.drawn_log import HOUR_MS, ServedLog
from tests.pictures.log_pictures import Log, batches_of, picture
from tests.scratch import SCRATCH
from tierfold.compaction.cleaning import rounds
from tierfold.compaction.commits import row_changes, seen_by_readers
from tierfold.compaction.commits.commit import NotePass
from tierfold.compaction.model.passes import with_pass
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import LocalRange, Pass
from tierfold.compaction.planning import drop_limits
from tierfold.compaction.planning.drop_limits import DropLimits, Readers

RETENTION_MS: Final = 3 * HOUR_MS
SERVED: Final = replace(
    RULES, delete_retention_ms=RETENTION_MS, min_cleanable_dirty_ratio=Fraction(0)
)


class SawADeletedKey(AssertionError):
    """A reader has other values in the end than the whole log."""


@dataclass
class Reader:
    """It reads the offsets in order, a few at a time, and ends in time."""

    started_ms: int
    offset: int = 0
    values: dict[bytes, bytes] = field(default_factory=dict)

    def read(self, log: ServedLog, count: int) -> Reader:
        """Read the next offsets, as brokers serve them now."""
        for key, value in log.read(self.offset, count):
            self.values.pop(key, None)
            if value is not None:
                self.values[key] = value
        self.offset += max(count, 0)
        return self


def the_whole(log: Log) -> dict[bytes, bytes]:
    """The last value of each key; a tombstone removes the key."""
    found: dict[bytes, bytes] = {}
    for batch in (batch for segment in log.segments for batch in batches_of(log, segment)):
        for record in batch.records:
            assert record.key is not None
            found.pop(record.key, None)
            if record.value is not None:
                found[record.key] = record.value
    return found


Action = tuple[str, int]
"""What happens, and how many half hours later."""

OFTEN: Final = ("compact", "publish", "upload", "start", "read")
WHAT: Final = (*OFTEN, *OFTEN, "chunk", "forced", "keep less", "keep more")
ACTIONS: Final = st.lists(
    st.tuples(st.sampled_from(WHAT), st.integers(0, 5)), max_size=24
)


@st.composite
def drawings(draw: st.DrawFn) -> str:
    """Two to five segments of a few keys, values and tombstones, some with a broker's horizon."""
    words: list[str] = []
    for offset in range(draw(st.integers(3, 10))):
        if words and draw(st.integers(0, 2)) == 0:
            words.append("|")
        key = draw(st.sampled_from("ab"))
        value = draw(st.sampled_from(["", "", str(offset)]))
        horizon = "^5" if not value and draw(st.integers(0, 4)) == 0 else ""
        written_ms = draw(st.sampled_from([0, 0, 2, 6])) * HOUR_MS
        words.append(f"{offset}:{key}={value}@{written_ms}{horizon}")
    return " ".join(words)


def played(log: ServedLog, actions: Sequence[Action], pace: int) -> Iterator[Reader]:
    """Let it all happen; yields each reader at the end of the log, if need be at its last minute.
    """
    readers: list[Reader] = []
    end = log.originals.segments[-1].next_offset
    for what, half_hours in actions:
        for _ in range(half_hours):
            log.pass_time(HOUR_MS // 2)
            late = [one for one in readers if log.now_ms - one.started_ms >= RETENTION_MS]
            readers = [one for one in readers if one not in late]
            yield from (reader.read(log, end - reader.offset) for reader in late)
        match what:
            case "start":
                readers.append(Reader(started_ms=log.now_ms))
            case "read":
                readers = [reader.read(log, pace) for reader in readers]
            case "chunk":
                log.compact(chunks_max=1)
            case "forced":
                log.compact(first_dirty=log.published[-1].start_offset if log.published else None)
            case "keep less" | "keep more":
                log.keep_locally(HOUR_MS if what == "keep less" else 3 * HOUR_MS)
            case _:
                getattr(log, what)()
    yield from (reader.read(log, end - reader.offset) for reader in readers)


def check(
    text: str,
    actions: Sequence[Action],
    pace: int,
    *,
    segment_bytes: int = 1,
    chunk_bytes: int | None = None,
) -> int:
    """Play it; returns how many tombstones went, in the end at the latest."""
    rules = replace(SERVED, segment_bytes=segment_bytes, chunk_bytes=chunk_bytes)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        originals = picture(text, Path(folder))
        log, expected = ServedLog(originals, rules), the_whole(originals)
        for reader in played(log, actions, pace):
            if reader.values != expected:
                raise SawADeletedKey(f"{reader.values}, not {expected}")
        return nothing_waits_for_ever(log)


def tombstones(log: Log, segments: Sequence[Segment]) -> Iterator[int]:
    for segment in segments:
        for batch in batches_of(log, segment):
            yield from (one.offset for one in batch.records if one.value is None)


def nothing_waits_for_ever(log: ServedLog) -> int:
    """A few quiet days later only the last segment has tombstones: what follows it is unknown.

    Returns how many went.
    """
    while log.uploaded < len(log.originals.segments):
        log.upload()
    for _ in range(4):
        log.pass_time(10 * HOUR_MS)
        log.publish()
        log.compact()
    last = log.originals.segments[-1].start_offset
    live = log.row.segments or log.originals.segments
    left = list(tombstones(log.originals, live))
    assert all(offset >= last for offset in left)
    return len(list(tombstones(log.originals, log.originals.segments))) - len(left)


@given(drawings(), ACTIONS, st.integers(1, 4), st.data())
def test_no_reader_sees_a_value_without_its_tombstone(
    text: str, actions: list[Action], pace: int, data: st.DataObject
) -> None:
    segment_bytes = data.draw(st.sampled_from([1, 200, 10**6]))
    chunk_bytes = data.draw(st.sampled_from([None, 1, 200]))
    went = check(text, actions, pace, segment_bytes=segment_bytes, chunk_bytes=chunk_bytes)
    event(f"tombstones went: {went > 0}")


# What the property is for: each rule left out, and a history in which a reader notices.

DELETED: Final = "0:a=1 | 1:a= | 2:b=1 | 3:b=2"
UPLOADS: Final[list[Action]] = [("upload", 0)] * 4
BEHIND: Final[list[Action]] = [
    *UPLOADS,
    ("compact", 8),
    # Its horizon passes, and it is not published.
    ("start", 20),
    ("read", 0),
    ("publish", 0),
    ("compact", 0),
    ("publish", 0),
]
LOCAL: Final[list[Action]] = [
    *UPLOADS,
    ("compact", 0),
    ("publish", 0),
    # Its horizon passes after the last local copies went, in which a reader saw the value.
    ("start", 3),
    ("read", 0),
    ("compact", 3),
    ("publish", 0),
]
AGAIN: Final = "0:b=1 | 1:b=2 | 2:a=1 | 3:a=^5 | 4:c=1 | 5:c=2"
FOUND: Final[list[Action]] = [
    *UPLOADS[:3],
    ("compact", 8),
    ("publish", 0),
    ("compact", 12),
    ("publish", 0),
    # A tombstone comes with a horizon that passed long ago.
    *UPLOADS[:3],
    ("start", 10),
    *[("read", 0)] * 3,
    ("compact", 0),
    ("publish", 0),
    ("compact", 0),
    ("publish", 0),
]


def by_horizon_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Readers, "limits", lambda _, now_ms: DropLimits(now_ms=now_ms))


def without_publication(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drop_limits, "published_until_ms", lambda _, __, now_ms: now_ms)


def by_publication_alone(patch: pytest.MonkeyPatch) -> None:
    """As if no broker had local copies."""

    def nowhere(row: PartitionState, *_: object) -> tuple[LocalRange, ...]:
        end = LocalRange(end_offset=row.next_offset, until_ms=-RETENTION_MS)
        return end, end

    patch.setattr(drop_limits, "local_ranges", nowhere)


def in_the_pass_that_removes_the_value(patch: pytest.MonkeyPatch) -> None:
    """As if what was dirty when the run began could go in it."""

    def all_clean(*given: Any, clean_until: int, now_ms: int) -> Readers | None:
        return drop_limits.readers_of(*given, clean_until=clean_until + 10**6, now_ms=now_ms)

    patch.setattr(rounds, "readers_of", all_clean)


def as_if_an_earlier_pass_had_found_it(patch: pytest.MonkeyPatch) -> None:
    def only_what_it_set(**given: Any) -> NotePass:
        return NotePass(**given | {"earliest_ms": 10**15})

    patch.setattr(seen_by_readers, "NotePass", only_what_it_set)


@pytest.mark.parametrize(
    ("plant", "text", "actions"),
    [
        (by_horizon_alone, DELETED, BEHIND),
        (without_publication, DELETED, BEHIND),
        (by_publication_alone, DELETED, LOCAL),
        (in_the_pass_that_removes_the_value, AGAIN, FOUND),
        (as_if_an_earlier_pass_had_found_it, AGAIN, FOUND),
    ],
)
def test_a_reader_notices_each_rule_that_is_left_out(
    plant: Callable[[pytest.MonkeyPatch], None], text: str, actions: list[Action]
) -> None:
    check(text, actions, pace=1)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(SawADeletedKey):
            check(text, actions, pace=1)


# A topic that is written and compacted all the time: its tombstones go all the same.

FLOW: Final = "0:a=1 | 1:a= | " + " | ".join(f"{offset}:b={offset}" for offset in range(2, 14))
NIGHTLY: Final[list[Action]] = [("upload", 2), ("compact", 1), ("publish", 0)]


def tombstones_left() -> int:
    """How many are left after a dozen runs, two hours apart."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        log = ServedLog(picture(FLOW, Path(folder)), SERVED)
        assert list(played(log, [*UPLOADS[:2], *NIGHTLY * 12], 1)) == []
        assert len(log.row.passes) < 6
        return len(list(tombstones(log.originals, log.row.segments)))


def test_passes_that_go_on_for_ever_do_not_keep_a_tombstone() -> None:
    assert tombstones_left() == 0

    def beginning_again(_: tuple[Pass, ...], **given: Any) -> tuple[Pass, ...]:
        return with_pass((), **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_changes, "with_pass", beginning_again)
        assert tombstones_left() == 1
