"""Which segments brokers upload of a log, and in which order: every leader by borders of its own.

After a change of leader the new one begins at its segment that holds the first missing offset, or
further back where it knows less of what is there. A deposed one may come late with what it had in
hand. A tier may be a copy, whose segments arrive in any order. And one segment in a few stories
never comes, or somebody lays one there that is none of the log.
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
    """A segment to be uploaded: some neighbouring batches of one history."""

    branch: Branch
    first: int
    beyond: int
    is_shuffled: bool = False
    """Its parts come in any order: of a copy, not of a broker."""
    foreign_until: int = 0
    """Below this batch one holds other records than the log; nobody's upload. 0: none does."""

    @property
    def upload(self) -> Upload:
        """Its content."""
        whole = joined(self.branch.uploads[self.first : self.beyond])
        if not self.foreign_until:
            return whole
        count = self.foreign_until - self.first
        return replace(whole, batches=_made_other(whole.batches[:count]) + whole.batches[count:])

    @property
    def lineage(self) -> tuple[LeaderEpoch, ...]:
        """What its checkpoint says."""
        last = self.branch.uploads[self.beyond - 1]
        return self.branch.lineage_below(last.batches[-1].base_offset + 1)


def _made_other(batches: list[BatchDraft]) -> list[BatchDraft]:
    """The same keys with other values, at the same offsets; markers as they were."""
    return [
        batch
        if batch.is_control
        else replace(
            batch, records=tuple(replace(record, value=b"of no log") for record in batch.records)
        )
        for batch in batches
    ]


def drawn_shipments(rng: Random, written: Written) -> list[Shipment]:
    """All that will be uploaded, in the order of the attempts."""
    found: list[Shipment] = []
    late: list[tuple[int, Shipment]] = []
    reached = 0
    for term, until in enumerate(written.terms):
        mine = _of_a_leader(rng, written, term, reached)
        if term < len(written.terms) - 1:
            kept = rng.randint(0, len(mine))
            late += [(len(found) + kept, each) for each in mine[kept:] if rng.random() < 0.3]
            mine = mine[:kept]
        found += mine
        reached = min(max(reached, *(each.beyond for each in mine), 0), until)
    for place, each in late:
        found.insert(rng.randint(place, len(found)), each)
    return _interrupted(rng, found, has_fork=written.lost is not None)


def _of_a_leader(rng: Random, written: Written, term: int, reached: int) -> list[Shipment]:
    """What a leader would upload until it is deposed; the last one is not."""
    is_lost = term == written.lost_term and written.lost is not None
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


def _interrupted(rng: Random, found: Sequence[Shipment], *, has_fork: bool) -> list[Shipment]:
    """What copies, and people, make of it."""
    found = list(found)
    rng = rng.random()
    if rng < 0.08:
        found = [replace(each, is_shuffled=True) for each in found]
        rng.shuffle(found)
    elif rng < 0.13 and len(found) > 2:
        del found[rng.randrange(1, len(found))]
    elif rng < 0.22 and not has_fork:
        place = rng.randrange(min(2, len(found)))
        true = found[place]
        beyond = rng.randint(true.beyond, len(true.branch.uploads))
        other = replace(true, beyond=beyond, foreign_until=true.beyond)
        # Of markers alone the copy would be a true one.
        if not all(batch.is_control for batch in true.upload.batches):
            found.insert(place + 1, other)
    return found
