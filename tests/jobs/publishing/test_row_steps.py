"""Steps that change the row, on real segments, until brokers have what the row says."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.brokers.published import updated
from tests.compaction.broker_events import GONE, LISTED
from tests.jobs.claims import ORDERS
from tests.jobs.publishing.published_tier import (
    HOUR_MS,
    LOG_END,
    NOW_SENT_MS,
    PublishedTier,
    compacted_once,
    compacting,
)
from tests.jobs.publishing.row_step_scenes import (
    SCENES,
    Scene,
    asked,
    every_scene,
    looked,
    survivors_of,
    to_copy,
    to_merge,
    to_merge_what_is_live,
    to_retire,
    to_retire_a_start,
)
from tests.spread import most_in_soak
from tests.storage.live_segments import an_abort, data, marker
from tierfold.compaction.commits.commit import (
    AddSegments,
    NoteLocalRanges,
    NoteSpared,
    RetireSegments,
    proposed,
)
from tierfold.compaction.model.origins import Compacted, Copied, Uploaded
from tierfold.compaction.model.segment_ids import is_restored_id, mark_of
from tierfold.compaction.model.segments import SparedBytes
from tierfold.compaction.model.serving import LocalRange, Pass
from tierfold.compaction.publishing.next_step import next_step
from tierfold.compaction.publishing.steps import Merge, Retire
from tierfold.jobs.publishing.row_steps import Changed, carried_out
from tierfold.jobs.publishing.segment_copies import copied_segments
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_metadata import read_aborted

tier = compacted_once()


def test_a_swap_is_noted_as_published_once(tier: PublishedTier) -> None:
    survivors, held = survivors_of(tier), tier.held()
    assert tier.publish(held) == ["start", "swap", "Done"]
    tier.reads(survivors)
    assert tier.row.passes == (
        Pass(epoch=1, horizon_ms=None, published_at_ms=NOW_SENT_MS, has_spared=False),
    )
    before = tier.row
    assert tier.publish(held) == ["Done"]
    assert tier.row == before


@every_scene
def test_each_step_leads_on_until_all_is_done(tier: PublishedTier, scene: Scene) -> None:
    one = asked(tier, scene)
    assert isinstance(one.step, SCENES[scene])
    uploads = [segment for segment in tier.uploads if segment.end_offset >= 20]
    survivors = survivors_of(tier, *uploads)
    outcome = one.carried_out()
    assert isinstance(outcome, Changed)
    assert outcome.row == tier.row == one.held.by_key[ORDERS].row
    has_written = scene not in {to_retire, to_retire_a_start}
    assert (outcome.bytes_written > 0) is has_written
    steps = tier.publish(one.held)
    assert set(steps) <= {"start", "swap", "Done"}, "no step is asked for twice"
    tier.reads(survivors)


def test_a_merge_takes_in_what_the_row_lacks_by_one_more_claim(tier: PublishedTier) -> None:
    (kept,) = tier.row.segments
    one = asked(tier, to_merge)
    epoch = tier.row.epoch
    outcome = one.carried_out()
    assert isinstance(outcome, Changed)
    assert (outcome.row.epoch, outcome.row.owner_run) == (epoch + 1, one.held.context.run)
    (merged,) = outcome.row.segments
    assert (merged.own_start_offset, merged.start_offset, merged.end_offset) == (0, 0, 29)
    assert outcome.row.retired_ids >= {kept.segment_id, tier.uploads[-1].segment_id}
    assert outcome.row.cleaner_offset == 20, "a merge is no pass"
    assert outcome.bytes_written == sum(
        path.stat().st_size for path in tier.folder.rglob(f"*-{merged.segment_id}.*")
    )


def test_a_merge_of_what_is_live_needs_no_claim(tier: PublishedTier) -> None:
    one = asked(tier, to_merge_what_is_live)
    epoch = tier.row.epoch
    assert isinstance(one.carried_out(), Changed)
    assert tier.row.epoch == epoch


def test_an_upload_that_gives_nothing_goes_with_the_merge(tier: PublishedTier) -> None:
    shorter = tier.upload(12, 25)
    one = asked(tier, to_merge)
    survivors = survivors_of(tier, tier.uploads[-1])
    assert isinstance(one.carried_out(), Changed)
    assert shorter.segment_id in tier.row.retired_ids
    assert tier.publish(one.held) == ["start", "swap", "Done"]
    tier.reads(survivors)


def test_a_merge_is_one_segment_whatever_its_size(tier: PublishedTier) -> None:
    tier.rules = compacting(segment_bytes=14)
    assert isinstance(asked(tier, to_merge).carried_out(), Changed)
    assert len(tier.row.segments) == 1


def test_a_merge_lists_the_aborted_transactions_of_its_sources(tier: PublishedTier) -> None:
    """Of the upload only from its effective start on: below, the replacement may lack a marker."""
    transactions = {
        15: data(15, (b"k3", b"aborted"), producer_id=7),
        16: marker(16, 7, ControlType.ABORT),
        24: data(24, (b"k0", b"aborted"), producer_id=7),
        25: marker(25, 7, ControlType.ABORT),
    }
    aborted = [an_abort(7, 15, 16), an_abort(7, 24, 25)]
    tier.upload(14, 29, batches=transactions, aborted=aborted)
    one = looked(tier)
    outcome = one.carried_out()
    assert isinstance(outcome, Changed)
    (merged,) = outcome.row.segments
    assert read_aborted(one.held.context.tier, ORDERS, merged) == (aborted[1],)


def test_a_copy_has_a_new_id_and_all_that_the_row_says_of_its_source(tier: PublishedTier) -> None:
    one = asked(tier, to_copy)
    (source,) = tier.row.segments
    spared = SparedBytes(segment_id=source.segment_id, superseded_bytes=5, since_offset=3)
    note = NoteSpared(entries=(spared,))
    one.held.commit([proposed(tier.row, note, commit_id="spared", at_ms=NOW_SENT_MS)])
    outcome = replace(one, partition=tier.look(one.held)).carried_out()
    assert isinstance(outcome, Changed)
    (copy,) = outcome.row.segments
    assert copy.origin == Copied(run=one.held.context.run, copy_of=source.segment_id, upload="")
    mark = mark_of(copy.segment_id)
    assert mark is not None
    assert not mark.is_restored, "the groups of a restore are published in another order"
    assert outcome.row.spared == (replace(spared, segment_id=copy.segment_id),)
    assert source.segment_id in outcome.row.retired_ids
    for path in tier.folder.rglob(f"*-{source.segment_id}.*"):
        assert path.read_bytes() == tier.path_of(copy.segment_id, path.suffix[1:]).read_bytes()


def bring_back(tier: PublishedTier) -> None:
    """Put a copy in the place of what is live, as a restore does."""
    held, row = tier.held(), tier.row
    copies = copied_segments(held.context, ORDERS, row.segments, is_restored=True)
    ids = tuple(one.segment_id for one in row.segments)
    retire = RetireSegments(ids=ids, at_ms=NOW_SENT_MS, run=held.context.run)
    add = AddSegments(segments=copies.segments)
    held.commit([proposed(row, retire, add, commit_id="restored", at_ms=NOW_SENT_MS)])
    held.settle()


@pytest.mark.parametrize("scene", [to_copy, to_merge])
def test_what_takes_the_place_of_a_restored_segment_is_published_in_its_order(
    tier: PublishedTier, scene: Scene
) -> None:
    bring_back(tier)
    outcome = asked(tier, scene).carried_out()
    assert isinstance(outcome, Changed)
    (segment,) = outcome.row.segments
    assert is_restored_id(segment.segment_id)


@pytest.mark.parametrize("scene", [to_retire, to_retire_a_start])
def test_what_is_retired_is_noted_as_brokers_have_it(tier: PublishedTier, scene: Scene) -> None:
    one = asked(tier, scene)
    before = tier.row
    assert isinstance(one.carried_out(), Changed)
    (entry,) = (new for new in tier.row.retired if new not in before.retired)
    added_event = one.partition.look.view.segments[entry.segment.segment_id].added
    assert entry.segment.end_offset == added_event.end_offset
    assert entry.retired_by_run == one.held.context.run
    assert entry.retired_at_ms >= NOW_SENT_MS
    origin = Uploaded() if scene is to_retire else Compacted(one.held.context.run)
    assert entry.segment.origin == origin
    assert tier.row.segments == before.segments


@pytest.mark.parametrize("scene", [to_merge, to_merge_what_is_live, to_retire])
def test_until_when_an_upload_is_local_is_noted_before_it_goes(
    tier: PublishedTier, scene: Scene
) -> None:
    """A new leader may have had the replacement's last offsets until an hour after its upload."""
    scene(tier)
    noted = LocalRange(end_offset=19, until_ms=1)
    held = tier.held()
    note = NoteLocalRanges(entries=(noted,), retention_ms=HOUR_MS)
    held.commit([proposed(tier.row, note, commit_id="noted", at_ms=NOW_SENT_MS)])
    held.settle()
    partition = tier.look(held)
    assert partition.known.brokers is not None
    brokers = replace(partition.known.brokers, local_retention_ms=HOUR_MS)
    partition = replace(partition, known=replace(partition.known, brokers=brokers))
    step = next_step(partition.look)
    assert isinstance(step, Merge | Retire)
    assert isinstance(carried_out(held, partition, step), Changed)
    first = tier.row.local_ranges[0]
    assert first.end_offset == 19
    assert first.until_ms >= NOW_SENT_MS + HOUR_MS


@pytest.mark.parametrize("seed", most_in_soak(range(6), 3))
def test_whatever_brokers_do_between_looks(tier: PublishedTier, seed: int) -> None:
    """They upload over what is live, and beyond it, and delete what runs wrote."""
    rng, held = Random(seed), tier.held()
    survivors = tier.given(tier.row.segments)
    for _ in range(rng.randint(2, 5)):
        for _ in range(rng.randint(0, 4)):
            tier.advance(held)
        if rng.random() < 0.7:
            first = rng.randint(1, 20)
            reached = max(one.end_offset for one in tier.uploads)
            upload = tier.upload(first, rng.randint(max(first, reached - 5), LOG_END - 1))
            survivors += [one for one in tier.given([upload]) if one.offset > survivors[-1].offset]
        elif served := sorted(tier.row.live_ids & tier.finished_ids):
            segment_id = rng.choice(served)
            tier.lose(updated(ORDERS, segment_id, LISTED))
            if rng.random() < 0.5:
                tier.lose(updated(ORDERS, segment_id, GONE))
    tier.publish(held)
    row = tier.row
    beyond = [one for one in survivors if one.offset >= row.next_offset]
    assert tier.given(row.segments) + beyond == survivors
    tier.reads(survivors)
