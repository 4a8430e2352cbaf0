"""Which passes an unclean election undoes, against a model that knows what each pass has read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.broker_events import LISTED
from tests.compaction.builders import CLUSTER, a_segment, a_state, segment_id
from tests.compaction.looks import a_look, own, replacement, whole
from tests.compaction.looks import given as in_state
from tests.compaction.uploads import upload
from tierfold.compaction.brokers.events import Event, SegmentState
from tierfold.compaction.brokers.partition_fold import PartitionFold
from tierfold.compaction.commits.commit import (
    AddSegments,
    AdoptSegments,
    AdvanceCleanerOffset,
    RetireSegments,
    proposed,
)
from tierfold.compaction.commits.row_changes import applied, claimed
from tierfold.compaction.commits.undone_passes import (
    Undone,
    UndonePasses,
    ValuesLost,
    undone_passes,
)
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.histories import History, decided_history
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.model.serving import Consent, ConsentKind
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.ranges import OffsetRange, ranges_found
from tierfold.compaction.publishing.steps import Done, Send

RUN = "run"


@dataclass
class Tier:
    """A partition that runs compact as they like: its rows, and what its segments have."""

    row: PartitionState
    rows: list[PartitionState] = field(default_factory=list)
    """Newest first."""
    kept: dict[str, frozenset[int]] = field(default_factory=dict)
    """By id, the offsets that a segment has."""

    def claim(self, uploads: Iterable[Segment] = ()) -> None:
        """A run claims it, with new uploads."""
        new = tuple(uploads)
        self.kept |= {one.segment_id: offsets_of(one) for one in new}
        row = replace(self.row, segments=(*self.row.segments, *new))
        self._next(claimed(row, run=RUN, commit_id=f"{len(self.rows)}", at_ms=1))

    def rewrite(self, new: dict[Segment, frozenset[int]], clean: int | None) -> None:
        """One commit: these replacements in the place of all that they hold; `clean`: below it."""
        self.kept |= {one.segment_id: offsets for one, offsets in new.items()}
        old = [
            segment.segment_id
            for segment in self.row.segments
            if any(one.start_offset <= segment.start_offset <= one.end_offset for one in new)
        ]
        updates = [RetireSegments(ids=tuple(old), at_ms=1, run=RUN), AddSegments(segments=(*new,))]
        risen = [] if clean is None else [AdvanceCleanerOffset(epoch=self.row.epoch, offset=clean)]
        proposal = proposed(
            self.row, *updates, *risen, commit_id=f"{len(self.rows)}", at_ms=1
        )
        self._next(applied(proposal, self.row))

    def _next(self, row: PartitionState) -> None:
        self.row = row
        self.rows.insert(0, row)


def offsets_of(segment: Segment) -> frozenset[int]:
    return frozenset(range(segment.start_offset, segment.end_offset + 1))


def a_tier(*spans: tuple[int, int]) -> Tier:
    """Claimed for the first time, with these uploads."""
    tier = Tier(replace(a_state([]), served_by=(CLUSTER,)))
    tier.claim(a_segment(*span) for span in spans)
    return tier


def log_of(start: int, cut_at: int, end: int = 69) -> tuple[Candidate, History]:
    """The new leader's first upload, and the history that it shows."""
    found = upload(start, end, (0, 0), (2, cut_at))
    return found, decided_history([found], None)


def undone(
    tier: Tier, cut_at: int = 30, gone: Iterable[str] = (), log_start: int = 0
) -> UndonePasses:
    _, history = log_of(cut_at, cut_at)
    there = tier.kept.keys() - set(gone)
    return undone_passes(tier.row, tier.rows, history, there, log_start)


TENS = tuple((start, start + 9) for start in range(0, 60, 10))


def compacted(*spans: tuple[int, int], clean: int = 60) -> Tier:
    """Six uploads; one pass wrote these replacements."""
    tier = a_tier(*TENS)
    tier.rewrite({replacement(f"{span}", *span): frozenset() for span in spans}, clean)
    return tier


def starts(segments: Iterable[Segment]) -> list[int]:
    return [segment.start_offset for segment in segments]


def test_what_the_pass_replaced_comes_back() -> None:
    tier = compacted((0, 59))
    found = undone(tier)
    assert isinstance(found, Undone)
    assert starts(found.back) == starts(found.row.segments) == [0, 10, 20]
    # All that the present row names stays named.
    assert found.row.named_ids == tier.row.named_ids
    assert found.row.lineage == log_of(30, 30)[1].lineage


def test_what_is_of_the_log_lacks_values_all_the_same() -> None:
    found = undone(compacted((0, 19), (20, 29), (30, 59)))
    assert isinstance(found, Undone)
    assert starts(found.back) == [0, 10, 20]


def test_a_pass_that_ended_below_the_cut_stays() -> None:
    tier = compacted((0, 29), clean=30)
    found = undone(tier)
    assert isinstance(found, Undone)
    assert found.back == ()
    assert starts(found.row.segments) == [0]
    # A later one read on.
    tier.claim()
    tier.rewrite({replacement("later", 0, 59): frozenset()}, 60)
    found = undone(tier)
    assert isinstance(found, Undone)
    assert [one.segment_id for one in found.back] == [own("(0, 29)")]


def test_what_a_claim_takes_stays() -> None:
    """It is no pass, whatever earlier ones wrote."""
    tier = a_tier(*TENS[:1])
    tier.claim(a_segment(*span) for span in TENS[1:])
    found = undone(tier)
    assert isinstance(found, Undone)
    assert (found.back, starts(found.row.segments)) == ((), [0, 10, 20])
    tier = a_tier(*TENS[:2])
    tier.rewrite({replacement("early", 0, 19): frozenset()}, 20)
    tier.claim(a_segment(*span) for span in TENS[2:])
    found = undone(tier)
    assert isinstance(found, Undone)
    assert (found.back, starts(found.row.segments)) == ((), [0, 20])


@pytest.mark.parametrize("clean", [None, 0])
def test_a_forced_pass_may_have_read_all(clean: int | None) -> None:
    """It says of no offset that it is clean; nor does a merge."""
    tier = a_tier(*TENS)
    tier.rewrite({replacement("forced", 0, 29): frozenset()}, clean)
    found = undone(tier)
    assert isinstance(found, Undone)
    assert starts(found.back) == [0, 10, 20]


def test_a_pass_from_before_the_log_reached_the_cut_stays() -> None:
    tier = a_tier(*TENS[:3])
    tier.rewrite({replacement("forced", 0, 29): frozenset()}, None)
    tier.claim(a_segment(*span) for span in TENS[3:])
    found = undone(tier)
    assert isinstance(found, Undone)
    assert found.back == ()


def test_a_copy_of_what_the_pass_replaced_stands_for_it() -> None:
    tier = compacted((0, 59))
    old = (entry.segment for entry in tier.row.retired)
    copies = [one.copied(own(f"copy {one.start_offset}"), RUN) for one in old]
    tier.claim()
    tier.rewrite(dict.fromkeys(copies, frozenset()), None)
    found = undone(tier)
    assert isinstance(found, Undone)
    assert found.back == ()


def test_below_the_log_start_nothing_comes_back() -> None:
    found = undone(compacted((0, 59)), log_start=15)
    assert isinstance(found, Undone)
    assert starts(found.back) == [10, 20]


def test_where_no_election_cut_anything_off_nothing_is_undone() -> None:
    assert undone(compacted((0, 59)), cut_at=60) is None


def test_where_nothing_is_of_the_log_nothing_is_undone() -> None:
    assert undone(compacted((0, 59)), cut_at=5) is None


def test_what_is_gone_is_named() -> None:
    found = undone(compacted((0, 29), (30, 59)), gone=[segment_id(10), segment_id(40)])
    assert isinstance(found, ValuesLost)
    assert starts(found.gone) == [10]
    assert segment_id(10) in found.note
    assert "offset 30" in found.note


def test_what_the_catalog_does_not_know_is_lost() -> None:
    tier, lost = compacted((0, 29), (30, 59)), ValuesLost(cut_at=30, gone=())
    del tier.rows[-1]
    assert undone(tier) == lost
    assert "backup" not in lost.note
    tier = compacted((0, 29), (30, 59))
    tier.rows[-1] = tier.row.emptied(())
    assert undone(tier) == lost


def test_what_an_earlier_forget_adopted_is_as_old_as_is_known() -> None:
    tier = compacted((0, 29), (30, 59))
    consent = Consent(kind=ConsentKind.ADOPTED, given_at_ms=1, run=RUN)
    tier.row = tier.rows[0] = replace(tier.row, consents=(consent,))
    assert undone(tier) == ValuesLost(cut_at=30, gone=())


@dataclass(frozen=True)
class Cut:
    """A log that was compacted, cut off, and written on by a new leader."""

    tier: Tier
    keys: Sequence[int]
    """By offset, of the new history."""
    tombstones: frozenset[int]
    """Offsets in it."""
    cut_at: int
    log: Candidate
    """The new leader's first upload: it begins with the segment in which the log was cut."""
    history: History
    reads_on: bool
    """Whether a pass may have read from the cut on, by its row's cleaner offset."""


@st.composite
def cut_logs(draw: st.DrawFn) -> Cut:
    """Some runs, with passes that end somewhere; what comes after the cut is of the new leader."""
    tier, keys = a_tier(), draw(st.lists(st.integers(0, 2), min_size=14, max_size=14))
    tombstones = draw(st.frozensets(st.integers(0, 13)))
    reads: list[int] = []
    for length in draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)):
        start = tier.row.next_offset
        tier.claim([a_segment(start, start + length - 1)])
        for end in draw(st.lists(st.sampled_from(tier.row.segments), max_size=2)):
            is_forced = draw(st.booleans())
            clean = tier.row.cleaner_offset or 0
            if not is_forced or clean < end.start_offset:
                has_risen = not is_forced and end.next_offset > clean
                reads.append(end.next_offset if has_risen else tier.row.next_offset)
                compact(draw, tier, keys, tombstones, end.next_offset, is_forced=is_forced)
    cut_at = draw(st.integers(1, tier.row.next_offset))
    is_of_new = {offset: draw(st.integers(0, 2)) for offset in range(cut_at, 14)}
    ends = [one.next_offset for one in uploads_in(tier) if one.next_offset <= cut_at]
    start = max(ends, default=0)
    log, history = log_of(start, cut_at, 13)
    return Cut(
        tier=tier,
        keys=[is_of_new.get(offset, key) for offset, key in enumerate(keys)],
        tombstones=tombstones,
        cut_at=cut_at,
        log=log,
        history=history,
        reads_on=any(end > cut_at for end in reads),
    )


def uploads_in(tier: Tier) -> list[Segment]:
    named = {one.segment_id: one for one in tier.row.named_segments}
    return [one for one in named.values() if one.is_upload]


def compact(
    draw: st.DrawFn,
    tier: Tier,
    keys: Sequence[int],
    tombstones: frozenset[int],
    end: int,
    *,
    is_forced: bool,
) -> None:
    """A pass up to `end`: of each key the newest record stays; of clean tombstones some go.

    A forced one compares only with what lies beyond the clean region, and raises no offset.
    """
    clean = tier.row.cleaner_offset or 0
    below = [one for one in tier.row.segments if one.end_offset < end]
    there = frozenset[int]().union(*(tier.kept[one.segment_id] for one in below))
    compared = {offset for offset in there if offset >= clean} if is_forced else there
    stays = {
        offset
        for offset in there
        if not any(later > offset and keys[later] == keys[offset] for later in compared)
    }
    if not is_forced:
        stays -= {one for one in stays & tombstones if one < clean and draw(st.booleans())}
    new: dict[Segment, frozenset[int]] = {}
    while below:
        count = draw(st.integers(1, len(below)))
        sources, below = below[:count], below[count:]
        old = frozenset[int]().union(*(tier.kept[one.segment_id] for one in sources))
        if old & stays != old or count > 1:
            name = f"{len(tier.kept)} {len(new)}"
            group = replacement(name, sources[0].start_offset, sources[-1].end_offset)
            new[group] = old & stays
    risen = clean if is_forced else max(clean, end)
    tier.rewrite(new, risen)


def newest(
    keys: Sequence[int], tombstones: frozenset[int], offsets: Iterable[int]
) -> dict[int, int]:
    """By key, the offset of the value that a reader of these offsets ends with."""
    last = {keys[offset]: offset for offset in sorted(offsets)}
    return {key: offset for key, offset in last.items() if offset not in tombstones}


@given(cut_logs(), st.data())
def test_readers_end_with_the_newest_values_of_the_log(cut: Cut, data: st.DataObject) -> None:
    row = cut.tier.row
    retired_ids = sorted(row.retired_ids)
    gone = data.draw(st.frozensets(st.sampled_from(retired_ids)) if retired_ids else st.just(()))
    found = undone_passes(
        row, cut.tier.rows, cut.history, row.named_ids.difference(gone), 0
    )
    match found:
        case ValuesLost():
            assert {one.segment_id for one in found.gone} <= set(gone)
            assert found.gone
        case Undone():
            reached = found.row.next_offset
            assert reached >= cut.log.start_offset
            there = set(range(reached, 14))
            there.update(*(cut.tier.kept[one.segment_id] for one in found.row.segments))
            for start in range(14):
                read = newest(cut.keys, cut.tombstones, (one for one in there if one >= start))
                assert read == newest(cut.keys, cut.tombstones, range(start, 14))
            assert cut.reads_on or not found.back
        case None:
            assert cut.cut_at == row.next_offset or cut.log.start_offset == 0


@given(cut_logs())
def test_brokers_read_only_the_log_once_it_is_published(cut: Cut) -> None:
    row, log = cut.tier.row, cut.log.segment
    found = undone_passes(row, cut.tier.rows, cut.history, row.named_ids, 0)
    if not isinstance(found, Undone) or log is None:
        return
    instead = {
        one.segment_id: one.copied(own(f"copy {one.segment_id}", is_restored=True), RUN)
        for one in found.back
    }
    live = [instead.get(one.segment_id, one) for one in found.row.segments]
    adopted = AdoptSegments(
        live=(*live, log),
        retired=tuple(one for one in row.named_segments if one not in live),
        brings_back=bool(instead),
        lineage=cut.history.lineage,
        log_start_offset=0,
        served_by=(),
        at_ms=1,
        run=RUN,
    )
    held = claimed(row, run=RUN, commit_id="held", at_ms=1)
    after = applied(proposed(held, adopted, commit_id="adopted", at_ms=1), held)
    in_turn = list(cut.tier.kept)
    topic: list[Event] = []
    for segment in sorted(row.named_segments, key=lambda one: in_turn.index(one.segment_id)):
        topic += whole(segment)
    topic += [in_state(entry.segment, LISTED) for entry in row.retired]
    topic += whole(log)

    def look() -> Look:
        return a_look(after, topic, lineage=cut.history.lineage)

    while (step := next_step(look())) != Done():
        assert isinstance(step, Send), step
        topic += step.events
    ends = look()
    finished = ends.view.in_state(SegmentState.COPY_FINISHED)
    assert {one.added.segment_id for one in finished} == after.live_ids
    fold = PartitionFold.resumed(ends.view)
    found_ranges = ranges_found(fold, ends.lineage, OffsetRange(0, 13))
    assert found_ranges == (OffsetRange(0, 13),)
