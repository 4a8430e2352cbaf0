"""Which segments of a log brokers upload, in which order; each leader has its own segment borders.

A new leader begins with its segment that has the first missing offset, or with an earlier one if
its metadata is old. A deposed leader may upload late. A tier may be a copy whose segments arrive in
any order. In a few scenarios a segment never arrives, or one has records that are not in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

from tests.faults.simulation.environment_log import Branch, Written, joined
from tests.jobs.chunked_logs import Upload
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.kafka.batch_draft import BatchDraft


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shipment:
    """A segment to upload: neighbouring batches of one history."""

    branch: Branch
    first: int
    beyond: int
    is_shuffled: bool = False
    """Its objects arrive in any order, as in a copy."""
    foreign_until: int = 0
    """Batches below this one have other values than the log; 0: none has."""

    @property
    def upload(self) -> Upload:
        """Its content."""
        whole = joined(self.branch.uploads[self.first : self.beyond])
        if not self.foreign_until:
            return whole
        count = self.foreign_until - self.first
        other = _with_other_values(whole.batches[:count])
        return replace(whole, batches=other + whole.batches[count:])

    @property
    def lineage(self) -> tuple[LeaderEpoch, ...]:
        """The leader epochs in its checkpoint."""
        last = self.branch.uploads[self.beyond - 1]
        return self.branch.lineage_below(last.batches[-1].base_offset + 1)


def _with_other_values(batches: list[BatchDraft]) -> list[BatchDraft]:
    """Return the batches with other values at the same offsets; markers stay as they are."""
    return [
        batch
        if batch.is_control
        else replace(
            batch, records=tuple(replace(record, value=b"of no log") for record in batch.records)
        )
        for batch in batches
    ]


def drawn_shipments(rng: Random, written: Written) -> list[Shipment]:
    """Draw all uploads, in the order in which they are attempted."""
    found: list[Shipment] = []
    late: list[tuple[int, Shipment]] = []
    reached = 0
    for term, until in enumerate(written.terms):
        mine = _of_a_leader(rng, written, term, reached)
        if term < len(written.terms) - 1:
            kept = rng.randint(0, len(mine))
            left = mine[kept:]
            late += [(len(found) + kept, shipment) for shipment in left if rng.random() < 0.3]
            mine = mine[:kept]
        found += mine
        reached = min(max(reached, *(shipment.beyond for shipment in mine), 0), until)
    for place, shipment in late:
        found.insert(rng.randint(place, len(found)), shipment)
    return _disturbed(rng, found, has_fork=written.lost is not None)


def _of_a_leader(rng: Random, written: Written, term: int, reached: int) -> list[Shipment]:
    """Draw what a leader would upload in its term; the last term does not end."""
    is_lost = term == written.lost_term
    branch = written.lost if is_lost and written.lost is not None else written.log
    until = len(branch.uploads) if is_lost else written.terms[term]
    known = reached - rng.choice((0, 0, 1, 2, reached)) if term else 0
    borders = [0]
    while borders[-1] < len(branch.uploads):
        borders.append(min(borders[-1] + rng.randint(1, 3), len(branch.uploads)))
    return [
        Shipment(branch=branch, first=first, beyond=beyond)
        for first, beyond in pairwise(borders)
        if max(known, 0) < beyond <= until
    ]


def _disturbed(rng: Random, found: Sequence[Shipment], *, has_fork: bool) -> list[Shipment]:
    """Disturb a few sequences as copies and people do: shuffle, drop or add a segment."""
    found = list(found)
    draw = rng.random()
    if draw < 0.08:
        found = [replace(shipment, is_shuffled=True) for shipment in found]
        rng.shuffle(found)
    elif draw < 0.13 and len(found) > 2:
        del found[rng.randrange(1, len(found))]
    elif draw < 0.22 and not has_fork:
        place = rng.randrange(min(2, len(found)))
        true = found[place]
        beyond = rng.randint(true.beyond, len(true.branch.uploads))
        other = replace(true, beyond=beyond, foreign_until=true.beyond)
        # A segment that has only markers would stay the same.
        if not all(batch.is_control for batch in true.upload.batches):
            found.insert(place + 1, other)
    return found
