"""A run on a partition that brokers serve: what it sees, what it sends, and its claim.

The product has no such run yet (issue 55). This one looks in the order of PUBLISHING 1.5, asks the
product's `next_step` and `next_deletion`, and does what they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Final

from tests.compaction.builders import KEY
from tests.compaction.hash_keys import FINGERPRINT
from tests.faults.broker_model.served_log import LogRecord
from tests.faults.simulation.served_environment import ServedEnvironment
from tests.faults.simulation.served_losses import refusal_of
from tests.faults.simulation.served_segments import uploaded
from tests.faults.simulation.served_table import Stopped, failure
from tests.faults.simulation.simulation_scheduler import MINUTE_MS, Actor
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.brokers.events import SegmentAdded
from tierfold.compaction.brokers.metadata_fold import MetadataFold
from tierfold.compaction.commits.commit import (
    MoveLogStart,
    RetireSegments,
    Update,
    proposed,
)
from tierfold.compaction.commits.row_changes import claimed
from tierfold.compaction.deletion.log_start import log_start_move, move_violation
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.model.segments import PartitionState, Segment
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.steps import Copy, Refused, Send

VALID_MS: Final = MINUTE_MS
"""How long a look is valid: `message.timeout.ms`."""

_BOTH_POLICIES: Final = Rules(
    cleanup_policy=frozenset({"compact", "delete"}), retention_written=frozenset({"retention_ms"})
)

_rank: Final = attrgetter("rank")


@dataclass(slots=True, kw_only=True)
class ServedRun:
    """One run of `compact` or `vacuum`."""

    environment: ServedEnvironment
    actor: Actor
    name: str
    epoch: int = 0
    """Of its claim; 0: it has none."""
    fold: MetadataFold | None = None
    asked: frozenset[str] = frozenset()
    seen: int = 0
    """How many events of the topic it has replayed."""
    looked_ms: int = 0
    is_rebuild: bool = False
    metadata_start: int = 0
    """Where the topic that it has replayed begins."""

    def look(self) -> Look:
        """Look at row and topic; raises Stopped if the run was fenced."""
        environment = self.environment
        cluster, tier = environment.cluster, environment.tier
        row = environment.table.read(self.actor)
        if self.epoch and (row.epoch, row.owner_run) != (self.epoch, self.name):
            raise Stopped("fenced")
        self.looked_ms = environment.now_ms
        present, whole = environment.act(
            self.actor,
            "list the tier",
            lambda: (tier.present(), frozenset(filter(tier.is_whole, tier.present()))),
            is_read=True,
        )
        self._ask(row.named_ids | present)
        environment.act(self.actor, "replay the topic", self._replay, is_read=True)
        offsets, lineage = environment.act(
            self.actor, "ask for offsets", self._offsets, is_read=True
        )
        assert self.fold is not None
        look = Look(
            row=row,
            view=self.fold.view(KEY),
            naming=self.fold.naming(KEY),
            offsets=offsets,
            lineage=lineage or cluster.log.leader_epochs,
            limits=environment.limits,
            fingerprint=FINGERPRINT,
            now_ms=environment.now_ms,
            whole=whole,
            present=present,
        )
        if not self.is_rebuild and (why := refusal_of(look, self.metadata_start)):
            raise Stopped(f"refused: {why}")
        return look

    def claim(self, *, adopts: bool) -> None:
        """Claim the partition; `adopts`: with the uploads that the row does not name yet."""
        look = self.look()
        environment, before = self.environment, look.row
        row = self._adopted(look) if adopts else before
        after = claimed(
            row, run=self.name, commit_id=self.commit_id(), at_ms=environment.now_ms
        )
        environment.table.claim(self.actor, before, after)
        self.epoch = after.epoch

    def commit(self, look: Look, *updates: Update) -> None:
        """Change the row that was looked at."""
        environment = self.environment
        proposal = proposed(
            look.row, *updates, commit_id=self.commit_id(), at_ms=environment.now_ms
        )
        environment.table.commit(self.actor, proposal)

    def send(self, step: Send) -> None:
        """Send events, unless the look is too old."""
        if self.environment.now_ms - self.looked_ms > VALID_MS:
            self.environment.outcomes["a look grew old"] += 1
            return
        self.environment.outcomes[f"sent: {step.purpose}"] += 1
        self.environment.send(self.actor, step.events, self.seen)

    def commit_id(self) -> str:
        """Draw the id of a claim or commit."""
        return f"{self.name}-{self.environment.rng.getrandbits(40)}"

    def follow_log_start(self, look: Look) -> bool:
        """Retire what lies below the brokers' log start; return whether the row changed."""
        below = [one for one in look.row.segments if one.end_offset < look.log_start]
        if not below:
            return False
        left = look.row.segments[len(below) :]
        start = left[0].start_offset if left else look.row.next_offset
        ids = tuple(segment.segment_id for segment in below)
        self.commit(
            look,
            RetireSegments(ids=ids, at_ms=self.environment.now_ms, run=self.name),
            MoveLogStart(offset=start),
        )
        self.environment.outcomes["the row followed the log start"] += 1
        return True

    def moves_log_start(self, look: Look) -> bool:
        """Ask brokers to move the log start past what has expired; return whether to look again.

        When it takes effect, however late, it must take nothing that is young and still counts.
        """
        environment = self.environment
        rules = replace(_BOTH_POLICIES, retention_ms=environment.own_retention_ms)
        move = log_start_move(look.row.segments, rules, look.offsets, look.now_ms)
        if move is None:
            return False
        if move_violation(look, rules, move.offset, look.now_ms):
            environment.outcomes["a move of the log start was forbidden"] += 1
            return False
        if environment.now_ms - self.looked_ms > VALID_MS:
            environment.outcomes["a look grew old"] += 1
            return True
        environment.act(
            self.actor,
            f"move the log start to {move.offset}",
            partial(self._move_log_start, move.offset),
        )
        environment.outcomes["runs moved the log start"] += 1
        return True

    def _move_log_start(self, offset: int) -> None:
        environment = self.environment
        log = environment.cluster.log
        newest: dict[str, LogRecord] = {}
        for record in log.records:
            newest[record.key] = max(newest.get(record.key, record), record, key=_rank)
        for record in newest.values():
            is_young = environment.now_ms - record.at_ms <= environment.own_retention_ms
            if is_young and record.value and log.log_start <= record.offset < offset:
                environment.fail(f"{self.name} moves the log start past {record}, which is young")
        environment.cluster.move_log_start(offset)

    def judge_refusal(self, look: Look, step: Copy | Refused) -> None:
        """Fail if a look gives cause to stop: no person and no broker here does anything wrong.

        Unless another run has changed the row since it was read.
        """
        environment = self.environment
        if environment.table.row == look.row:
            environment.fail(f"{self.name}: {step}")
        environment.outcomes["stopped by a row that had changed"] += 1

    def _ask(self, ids: frozenset[str]) -> None:
        """Begin a new replay if there are ids about which this one was not asked."""
        if self.fold is None or not ids <= self.asked:
            self.fold = MetadataFold(1)
            self.fold.ask(KEY, ids)
            self.asked = ids

    def _replay(self) -> None:
        assert self.fold is not None
        cluster = self.environment.cluster
        self.metadata_start = cluster.metadata_start
        begin = max(self.metadata_start, self.fold.next_offset(0))
        self.fold.apply(cluster.records[begin:])
        self.seen = len(cluster.records)

    def _offsets(self) -> tuple[PartitionOffsets, tuple[object, ...]]:
        if not self.environment.cluster.has_leader:
            raise failure("the partition has no leader")
        log = self.environment.cluster.log
        offsets = PartitionOffsets(
            log_start=log.log_start, high_watermark=log.end, last_stable=log.end
        )
        return offsets, log.leader_epochs

    def _adopted(self, look: Look) -> PartitionState:
        """The row with finished uploads beyond its end, each for the offsets that are new."""
        return self.adopted(look.row, [one.added for one in look.finished], look.log_start)

    def adopted(
        self, row: PartitionState, whole: Iterable[SegmentAdded], log_start: int
    ) -> PartitionState:
        """The row with those whole uploads beyond its end that are of the log."""
        live: list[Segment] = list(row.segments)
        reached = row.next_offset if live else max(row.next_offset, log_start)
        left = [
            added
            for added in whole
            if added.segment_id not in row.named_ids
            and maker_of(added.segment_id, FINGERPRINT) is Maker.BROKER
            and self.environment.cluster.is_of_log(added.segment_id)
        ]
        while True:
            on = [one for one in left if one.start_offset <= reached <= one.end_offset]
            if not on:
                break
            best = max(on, key=lambda one: (one.end_offset, -one.start_offset))
            start = reached if live else max(best.start_offset, row.next_offset)
            live.append(uploaded(best, start, live))
            reached = best.end_offset + 1
        if not live:
            return row
        lineage = tuple(
            entry for entry in self.environment.cluster.log.leader_epochs
            if entry.start_offset < reached
        )
        log_start = row.log_start_offset if row.segments else live[0].start_offset
        self.environment.outcomes["uploads adopted"] += len(live) - len(row.segments)
        return replace(
            row, segments=tuple(live), lineage=lineage, log_start_offset=log_start
        )
