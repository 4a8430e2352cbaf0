"""History from rows, newest first: the event of each, and the row of a time or a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import given

from tests.compaction.builders import a_chain, a_state, leave_alone
from tests.compaction.histories import STEPS, Step, lived
from tierfold.compaction.commits.history import Entry, Event, at, entries, left_by, notable
from tierfold.compaction.model.segments import PartitionState


def history(rows: Sequence[PartitionState]) -> list[Entry]:
    """The entries, newest first, of rows given oldest first."""
    return list(entries(rows[::-1]))


def events(*steps: Step) -> list[Event]:
    """The notable events of a life of these steps, oldest first, after its first row."""
    return [entry.event for entry in notable(history(lived(steps).rows))][-2::-1]


def test_each_row_has_its_event() -> None:
    assert events(("compact", 0, 0)) == [Event.COMPACTED]
    assert events(("upload", 0, 0)) == [Event.CLAIMED]
    assert events(("expire", 0, 0)) == [Event.EXPIRED]
    assert events(("expire", 0, 0), ("mark", 0, 0), ("forget", 0, 0)) == [
        Event.EXPIRED,
        Event.DELETING,
        Event.DELETED,
    ]
    assert events(("compact", 0, 0), ("undo", 0, 0)) == [Event.COMPACTED, Event.RESTORED]
    assert events(("compact", 0, 0), ("copy", 0, 0)) == [Event.COMPACTED, Event.RESTORED]
    # All segments stayed the same: only the cleaner offset moved.
    assert events(("compact", 7, 0)) == [Event.COMPACTED]


def test_a_consent_alone_is_an_event() -> None:
    rows = lived([("compact", 0, 0)]).rows
    agreed = replace(rows[-1], commit_id="agreed", consents=(leave_alone("a"),))
    (newest, *_) = history([*rows, agreed])
    assert newest.event is Event.CONSENTED


def test_the_first_row_is_found_unless_older_rows_are_missing() -> None:
    rows = lived([("compact", 0, 0)]).rows
    assert history(rows)[-1].event is Event.FOUND
    for forgotten in range(1, len(rows)):
        assert history(rows[forgotten:])[-1].event is Event.EARLIER
    assert history([]) == []


def test_an_entry_has_its_run_and_its_segment_counts() -> None:
    compacted, claim, released, found = history(lived([("compact", 0, 2)]).rows)
    assert (found.run, found.segments_in, found.segments_out) == ("run 0", 0, 3)
    assert (released.event, released.run) == (Event.RELEASED, "run 0")
    assert (claim.event, claim.segments_in, claim.segments_out) == (Event.CLAIMED, 0, 0)
    assert (compacted.run, compacted.segments_in, compacted.segments_out) == ("run 2", 3, 1)
    # Without its claim the run of the epoch is unknown.
    assert history(lived([]).rows[1:])[0].run == ""
    assert (claim.claimed_at_ms, compacted.claimed_at_ms, released.claimed_at_ms) == (2, 2, 0)


def test_no_row_is_read_before_it_is_needed() -> None:
    read: list[PartitionState] = []

    def rows() -> Iterator[PartitionState]:
        for row in lived([("compact", 0, 0)] * 5).rows[::-1]:
            read.append(row)
            yield row

    newest = next(entries(rows()))
    assert newest.state == read[0]
    # Its epoch's claim is two rows back; the row before that is needed, too.
    assert len(read) == 3


@given(STEPS)
def test_every_state_is_listed_and_found_by_its_time(steps: list[Step]) -> None:
    life = lived(steps)
    found = history(life.rows)
    assert [entry.state for entry in found] == life.rows[::-1]
    shown = list(notable(found))
    assert {entry.state.segments for entry in shown} == {row.segments for row in life.rows}
    for entry in shown:
        assert at(found, entry.state.committed_at_ms) == entry
    for row in life.rows:
        meant = at(found, row.committed_at_ms)
        assert meant is not None
        assert meant.state == row


@given(STEPS)
def test_a_run_means_the_last_row_of_its_epoch(steps: list[Step]) -> None:
    life = lived(steps)
    found = history(life.rows)
    for claim in (row for row in life.rows if row.owner_run):
        (meant,) = left_by(found, claim.owner_run)
        assert meant.state == [row for row in life.rows if row.epoch == claim.epoch][-1]
        assert meant in left_by(found, "run")


def test_of_rows_with_the_same_time_the_last_counts() -> None:
    rows = [replace(row, committed_at_ms=5) for row in lived([("compact", 0, 0)]).rows]
    meant = at(history(rows), 5)
    assert meant is not None
    assert meant.state == rows[-1]
    assert at(history(rows), 4) is None
    assert at(history(rows), 6) == meant


def test_the_time_of_an_entry_selects_it_even_if_a_clock_was_wrong() -> None:
    rows = lived([("compact", 0, 0), ("upload", 0, 0)]).rows
    times_ms = (10, 20, 90, 30, 40, 5)
    found = history(
        [replace(row, committed_at_ms=ms) for row, ms in zip(rows, times_ms, strict=True)]
    )
    for entry in found:
        assert at(found, entry.state.committed_at_ms) == entry
    assert at(found, 4) is None
    assert at(found, 91) == found[0]


def test_a_run_may_be_named_by_a_prefix_of_its_name() -> None:
    live = a_chain(10)
    names = ("20261121T1-aaa", "20261121T1-aab", "20261121T1-aa")
    rows = [
        a_state(live, epoch=epoch, owner_run=name, commit_id=name)
        for epoch, name in enumerate(names, start=1)
    ]
    found = history(rows)
    assert [entry.run for entry in left_by(found, "20261121T1-aab")] == ["20261121T1-aab"]
    assert [entry.run for entry in left_by(found, "20261121T1-aa")] == ["20261121T1-aa"]
    assert [entry.run for entry in left_by(found, "20261121T1-a")] == list(names)[::-1]
    assert left_by(found, "2025") == ()
    # A shell variable that is not set.
    assert left_by(found, "") == ()
