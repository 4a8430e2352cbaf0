"""The simulation finds planted bugs: each breaks one guard of the protocol.

docs/reliability.md says how many seeds each bug takes. The search starts at a seed that finds the
bug today; after a change of the product a later seed may be the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any

import pytest

from tests.faults.simulation.environment_bucket import store_of
from tests.faults.simulation.environment_store import VirtualStore
from tests.faults.simulation.environment_table import TableLog, VirtualVersion
from tests.faults.simulation.scenario import played
from tierfold.compaction.cleaning.rounds import Round
from tierfold.compaction.commits import commit
from tierfold.compaction.commits.forget import Forgetting
from tierfold.compaction.commits.receipts import GroupReceipt, VerifiedParts
from tierfold.compaction.commits.round_commit import proposal_of
from tierfold.compaction.deletion import deletion_plan, makers
from tierfold.compaction.deletion.deletion_plan import DeletionPlan, VacuumLimits
from tierfold.compaction.discovery import draft, drafted_view, facts, overlaps
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.histories import History, decided_history
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segment_ids import Maker
from tierfold.compaction.model.segments import PartitionKey, PartitionState, Segment
from tierfold.jobs.engines import scan
from tierfold.jobs.pipeline import check_and_commit, discovery
from tierfold.jobs.verbs import forget as forget_job
from tierfold.storage.catalog import log_boundary
from tierfold.storage.segments import group_rewrite
from tierfold.storage.segments.log_windows import StoredObject, whole_log
from tierfold.storage.segments.segment_writer import SegmentWriter
from tierfold.storage.tiers.local_tiered_storage import StagedFiles
from tierfold.storage.tiers.remote_tier import Part, RemoteTier
from tierfold.storage.tiers.s3_objects import S3Object

Bug = Callable[[pytest.MonkeyPatch], None]


def conflicts_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """A write succeeds whatever was written after the version that it read."""
    patch.setattr(TableLog, "conflicts", lambda *_: False)


def refused_writes_count_as_done(patch: pytest.MonkeyPatch) -> None:
    """A write with a conflict counts as done, as if no one checked how many rows it updated."""
    replace = VirtualVersion.replace
    patch.setattr(VirtualVersion, "replace", lambda *given: replace(*given) or True)


def the_boundary_is_not_read(patch: pytest.MonkeyPatch) -> None:
    """A version that was created again, after its first commit was deleted, counts as a commit."""
    patch.setattr(log_boundary, "is_kept", lambda *_: True)


_OF_SOURCES = commit.SegmentsAreLive | commit.SegmentsAreRetired


def epochs_do_not_fence(patch: pytest.MonkeyPatch) -> None:
    """A commit requires only its sources, not the epoch or the row that it was based on."""
    failed_requirements = commit.failed_requirements

    def of_sources(
        requires: tuple[commit.Requirement, ...], state: PartitionState
    ) -> tuple[commit.Requirement, ...]:
        found = failed_requirements(requires, state)
        return tuple(need for need in found if isinstance(need, _OF_SOURCES))

    patch.setattr(commit, "failed_requirements", of_sources)


def orphans_are_deleted_by_age_alone(patch: pytest.MonkeyPatch) -> None:
    """Deleting orphans fences no run, so a stalled run may commit deleted segments."""

    def changes_the_row(deletion: DeletionPlan) -> bool:
        return bool(deletion.expired or deletion.starting or deletion.going)

    def has_nothing(deletion: DeletionPlan) -> bool:
        return not (changes_the_row(deletion) or deletion.orphans or deletion.incomplete_uploads)

    patch.setattr(DeletionPlan, "needs_claim", property(changes_the_row))
    patch.setattr(DeletionPlan, "is_nothing", property(has_nothing))


def there_is_no_grace_period(patch: pytest.MonkeyPatch) -> None:
    """Replaced segments are deleted at once, while readers still read them."""
    init = VacuumLimits.__init__
    patch.setattr(
        VacuumLimits, "__init__", lambda limits, **given: init(limits, **{**given, "grace_ms": 0})
    )


def commits_do_not_wait_for_uploads(patch: pytest.MonkeyPatch) -> None:
    """The last object is uploaded in the background, and nothing checks that it arrived."""
    put = StagedFiles.put

    def put_in_background(staged: StagedFiles, part: Part, data: bytes) -> None:
        store = staged.tier.store
        assert isinstance(store, VirtualStore)
        if part is not Part.LEADER_EPOCH_CHECKPOINT:
            put(staged, part, data)
            return
        key = staged._next(part)
        store.actor.scheduler.spawn(
            f"{store.actor.name}'s upload",
            lambda actor: store_of(actor, store.objects).create(key, data),
            allowed=frozenset(),
        )

    patch.setattr(StagedFiles, "put", put_in_background)
    nothing_is_verified(patch)


def nothing_is_verified(patch: pytest.MonkeyPatch) -> None:
    """Nothing that was written is checked before the commit."""

    def verified(writer: SegmentWriter) -> None:
        writer._verified = VerifiedParts(by_reading_back=len(writer.parts))

    patch.setattr(SegmentWriter, "_verify", verified)
    patch.setattr(check_and_commit, "listing_violations", lambda *_: ())


def unanswered_completions_count_as_done(patch: pytest.MonkeyPatch) -> None:
    """A completion without an answer counts as done, even if the store does not show its object."""
    complete = S3Object.complete

    def without_answer(target: S3Object, *given: Any) -> None:
        with suppress(UnreadableObject):
            complete(target, *given)

    patch.setattr(S3Object, "complete", without_answer)
    nothing_is_verified(patch)


def uploads_of_brokers_are_aborted(patch: pytest.MonkeyPatch) -> None:
    """`vacuum` takes the uploads of brokers that serve the tier for its own."""
    patch.setattr(makers, "maker_of", lambda *_: Maker.THIS_CATALOG)


def uploads_in_progress_are_aborted(patch: pytest.MonkeyPatch) -> None:
    """`vacuum` aborts unfinished uploads of any age."""
    patch.setattr(deletion_plan, "_old", lambda found, _: tuple(found))


def incomplete_uploads_count_as_covered(patch: pytest.MonkeyPatch) -> None:
    """An incomplete upload counts as an orphan, whatever its `.log` holds."""
    is_orphan = drafted_view.is_orphan

    def or_incomplete(segment: Candidate, row: PartitionState | None) -> bool:
        return row is not None and (not segment.listed.is_complete or is_orphan(segment, row))

    patch.setattr(drafted_view, "is_orphan", or_incomplete)


def epochs_are_read_only_beyond_the_live_end(patch: pytest.MonkeyPatch) -> None:
    """A segment within the live range counts as an orphan, whichever leader wrote it."""
    is_orphan = drafted_view.is_orphan

    def of_the_rest(inspected: Sequence[Candidate], row: PartitionState | None) -> History:
        end = 0 if row is None else row.next_offset
        rest = [segment for segment in inspected if segment.listed.start_offset >= end]
        return decided_history(rest, row)

    def or_within(segment: Candidate, row: PartitionState | None) -> bool:
        is_within = row is not None and segment.end_offset is not None and segment.is_readable
        return is_orphan(segment, row) or (is_within and segment.end_offset < row.next_offset)

    patch.setattr(facts, "decided_history", of_the_rest)
    patch.setattr(drafted_view, "is_orphan", or_within)


def overlapping_uploads_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """Only a segment that begins where the log ends is taken."""

    def chain_of(reached: int, candidates: Sequence[Segment], *more: Any) -> overlaps.Chain:
        found = overlaps.chain_of(reached, candidates, *more)
        taken = tuple(takewhile(lambda segment: not segment.skipped_offsets, found.taken))
        left = found.taken[len(taken) :]
        return replace(found, taken=taken, superseded=(*found.superseded, *left))

    patch.setattr(draft, "chain_of", chain_of)


def effective_starts_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """A segment is read from its own start, so offsets that another one gives are read twice."""
    def from_its_own_start(
        tier: RemoteTier, key: PartitionKey, segment: Segment, *_: Any
    ) -> StoredObject:
        return whole_log(tier, key, segment)

    for reader in (scan, group_rewrite):
        patch.setattr(reader, "live_log", from_its_own_start)


def overlaps_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """Segments that overlap are assumed to have the same records at the shared offsets."""
    prove = discovery.prove_overlaps
    patch.setattr(
        discovery, "prove_overlaps", lambda *given: replace(prove(*given), disagreements=())
    )


def forget_accepts_any_partition(patch: pytest.MonkeyPatch) -> None:
    """`forget` takes any partition for a truncated one."""
    refusal = Refusal(reason=RefusalReason.LINEAGE_DIVERGED, detail="as planted", remedy="")
    patch.setattr(forget_job, "divergence", lambda _: refusal)


def forget_checks_no_obstacle(patch: pytest.MonkeyPatch) -> None:
    """A row is emptied while segments that compaction wrote or retired are still in the tier."""
    patch.setattr(forget_job, "in_the_way", lambda *_: None)


def forget_gives_up_every_live_segment(patch: pytest.MonkeyPatch) -> None:
    """Segments of the current history are given up together with the truncated ones."""

    def consent(found: Forgetting) -> tuple[str, ...]:
        return tuple(segment.segment_id for segment in (*found.forgotten, *found.taken))

    patch.setattr(Forgetting, "consent", property(consent))


def forgotten_rows_keep_the_old_end(patch: pytest.MonkeyPatch) -> None:
    """An emptied row continues where its last segment ended."""
    emptied = PartitionState.emptied
    patch.setattr(
        PartitionState,
        "emptied",
        lambda row, consent: replace(emptied(row, consent), log_start_offset=row.next_offset),
    )


def commits_carry_the_start_time_of_the_run(patch: pytest.MonkeyPatch) -> None:
    """The grace period of replaced segments begins with the run, not with the commit."""

    def as_of_the_start(
        work: Round,
        receipts: Sequence[GroupReceipt],
        commit_id: str,
        _: int,
        unread: Mapping[str, int],
    ) -> commit.CommitProposal:
        return proposal_of(work, receipts, commit_id, work.now_ms, unread)

    patch.setattr(check_and_commit, "proposal_of", as_of_the_start)


def first_failure(bug: Bug, first: int, seeds: int) -> str:
    """Return the first failure of this many seeds, from `first` on."""
    for seed in range(first, first + seeds):
        with pytest.MonkeyPatch.context() as patch:
            bug(patch)
            failure = played(seed).failure
        if failure:
            return failure
    raise AssertionError(f"{bug.__name__}: not found within {seeds} seeds")


_LOST = "is deleted, but alone has"
_MUST = "must be refused"
_STUCK = "is still there|cannot be forgotten|no history has"


@pytest.mark.parametrize(
    ("bug", "first", "seeds", "found"),
    [
        (conflicts_are_not_checked, 2014, 100, "the epoch (fell|belonged)"),
        (refused_writes_count_as_done, 2012, 100, "did not take place"),
        (the_boundary_is_not_read, 2159, 300, "did not take place"),
        (epochs_do_not_fence, 2073, 300, "earlier_epochs_are_frozen"),
        (orphans_are_deleted_by_age_alone, 2067, 600, "was deleted"),
        (there_is_no_grace_period, 2000, 20, "after it was retired"),
        (commits_do_not_wait_for_uploads, 2007, 20, "is not there"),
        (incomplete_uploads_count_as_covered, 2105, 400, f"{_LOST}|for a day|{_MUST}"),
        (epochs_are_read_only_beyond_the_live_end, 2005, 200, f"{_LOST}|was truncated|{_MUST}"),
        (overlapping_uploads_are_ignored, 2001, 50, "is left unchanged, but|nothing beyond offset"),
        (effective_starts_are_ignored, 2001, 50, "stay due|readers get"),
        (overlaps_are_not_compared, 2003, 400, "no upload of this log"),
        (forget_accepts_any_partition, 1209, 300, "was not truncated|is gone from the tier"),
        (forget_checks_no_obstacle, 2124, 400, _STUCK),
        (forget_gives_up_every_live_segment, 2018, 100, "is part of the log"),
        (forgotten_rows_keep_the_old_end, 2018, 400, _STUCK),
        (commits_carry_the_start_time_of_the_run, 2000, 20, "a commit has the time"),
        (unanswered_completions_count_as_done, 2121, 400, "is not there"),
        (uploads_of_brokers_are_aborted, 2009, 400, "a broker's upload of"),
        (uploads_in_progress_are_aborted, 2028, 300, "upload of"),
    ],
)
def test_a_planted_bug_is_found(bug: Bug, first: int, seeds: int, found: str) -> None:
    failure = first_failure(bug, first, seeds)
    assert re.search(found, failure), failure
