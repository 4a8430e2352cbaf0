"""What the product decides in a state: each look is decided once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tests.compaction.hash_keys import FINGERPRINT
from tests.compaction.looks import LIMITS, NOW_MS
from tests.faults.publishing_search.search_rebuild import ground_of
from tests.faults.publishing_search.search_segments import BY_ID, Row, Stored, segment_of
from tests.faults.publishing_search.search_state import Scenario
from tests.faults.publishing_search.search_views import Sent, View, sent
from tierfold.compaction.brokers.broker_view import Naming
from tierfold.compaction.brokers.cluster_facts import PartitionOffsets
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.compaction.publishing import deletions, next_step
from tierfold.compaction.publishing.event_check import ForbiddenEvent, checked
from tierfold.compaction.publishing.look import Look
from tierfold.compaction.publishing.lost_metadata import (
    NameAgain,
    RebuildStep,
    rebuild_step,
    with_rebuilds,
)
from tierfold.compaction.publishing.steps import (
    Copy,
    Delete,
    Deletion,
    Merge,
    Retire,
    Send,
    Step,
)

HIGH_WATERMARK = 1000


class Decision(NamedTuple):
    """A step of the product, with the search's own objects."""

    step: Step | Deletion | RebuildStep
    events: tuple[Sent, ...] = ()
    segments: tuple[Stored, ...] = ()

    @property
    def why(self) -> str:
        """The kind of step, and its reason."""
        kind, why = type(self.step).__name__.lower(), getattr(self.step, "why", "")
        return f"{kind}: {why}" if why else kind


Place = tuple[Row, View, frozenset[Stored], int]
"""Row, view, objects and log start."""


class Decisions:
    """The steps and deletions of the product in one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self._lineage = scenario.log.lineage
        self._cuts_lineage = scenario.cuts_lineage
        self._limits = replace(LIMITS, batch_bytes_max=scenario.batch_bytes_max)
        self._steps: dict[Place, Decision] = {}
        self._deletions: dict[Place, Decision] = {}
        self._rebuilds: dict[tuple[Place, bool, bool], Decision] = {}
        self.forbidden: str | None = None
        """The first send that the product would decide and then not let out; None: none."""

    def step(self, place: Place) -> Decision:
        """What `next_step` says."""
        known = self._steps.get(place)
        if known is None:
            known = self._steps[place] = self._decided(place, next_step.next_step)
        return known

    def deletion(self, place: Place) -> Decision:
        """What `next_deletion` says."""
        known = self._deletions.get(place)
        if known is None:
            known = self._deletions[place] = self._decided(place, deletions.next_deletion)
        return known

    def rebuild(self, place: Place, *, is_served: bool, is_copying: bool) -> Decision:
        """What `rebuild_step` says, by what the row and the listing say of the log."""
        key = (place, is_served, is_copying)
        if key not in self._rebuilds:
            row, view, store, log_start = place
            ground = ground_of(row, store, log_start)
            covered = [segment_of(one, one.start) for one in ground.covered]

            def decide(look: Look) -> RebuildStep:
                return rebuild_step(look, is_served=is_served, is_copying=is_copying)

            look = with_rebuilds(self._look((ground.row, view, store, log_start)), covered)
            self._rebuilds[key] = self._of(look, decide)
        return self._rebuilds[key]

    def seen(self) -> Counter[str]:
        """How many looks came to each kind of step, and to each purpose of a send."""
        decisions = [
            one
            for known in (self._steps, self._deletions, self._rebuilds)
            for one in known.values()
        ]
        return Counter(
            one.step.purpose.value
            if isinstance(one.step, Send | NameAgain)
            else type(one.step).__name__
            for one in decisions
        )

    def _decided(self, place: Place, decide: Callable[[Look], Step | Deletion]) -> Decision:
        return self._of(self._look(place), decide)

    def _of(self, look: Look, decide: Callable[[Look], Step | Deletion | RebuildStep]) -> Decision:
        step = decide(look)
        match step:
            case Send() | NameAgain():
                check = checked(look, step.events)
                if self.forbidden is None and isinstance(check, ForbiddenEvent):
                    self.forbidden = f"its own check forbids {step.purpose}: {check.why}"
                return Decision(step, events=tuple(map(sent, step.events)))
            case Merge() | Retire() | Delete():
                return Decision(step, segments=tuple(BY_ID[one] for one in step.segment_ids))
            case Copy():
                return Decision(step, segments=(BY_ID[step.segment_id],))
            case _:
                return Decision(step)

    def _lineage_from(self, log_start: int) -> tuple[LeaderEpoch, ...]:
        if not self._cuts_lineage:
            return self._lineage
        begun = [entry for entry in self._lineage if entry.start_offset <= log_start]
        later = [entry for entry in self._lineage if entry.start_offset > log_start]
        return (replace(begun[-1], start_offset=log_start), *later)

    def _look(self, place: Place) -> Look:
        row, view, store, log_start = place
        present = frozenset(segment.segment_id for segment in store)
        naming = {
            its_id: Naming.NAMED if its_id in view.named else Naming.NEVER_NAMED
            for its_id in row.state.named_ids
        }
        return Look(
            row=row.state,
            view=view.broker,
            naming=naming,
            offsets=PartitionOffsets(
                log_start=log_start, high_watermark=HIGH_WATERMARK, last_stable=HIGH_WATERMARK
            ),
            lineage=self._lineage_from(log_start),
            limits=self._limits,
            fingerprint=FINGERPRINT,
            now_ms=NOW_MS,
            whole=present,
            present=present,
        )
