"""Machines with a broker's log directory, from which `tierfold upload` fills the tier.

    machines(environment, folder)   per partition the leader's, and one that was deposed
    upload_once(…)                  one `tierfold upload`; its steps pause like any other verb's

The directories are real files, so reading them is no step. What is written is noted for the model,
as what a broker uploads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tests.faults.simulation.environment_broker import Attempt, History
from tests.faults.simulation.environment_log import Branch, beyond, joined
from tests.faults.simulation.simulation_scheduler import Actor
from tests.faults.simulation.simulation_settings import Environment
from tests.jobs.log_dirs import WrittenLogDir
from tierfold.compaction.model.errors import TierfoldError
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.verbs.upload import upload
from tierfold.storage.indexes.leader_epoch_checkpoint import write_leader_epoch_checkpoint
from tierfold.storage.log_dirs.log_directory import LEADER_EPOCHS, LogDirectory
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, StagedFiles, part_key
from tierfold.storage.tiers.remote_tier import Part, SegmentAddress


@dataclass(frozen=True, slots=True)
class NotedTier(LocalTieredStorage):
    """A tier that notes each segment that is begun, before its first object."""

    histories: Mapping[PartitionKey, History] = field(default_factory=dict)

    def new_segment(
        self, address: SegmentAddress, sources: Sequence[SegmentAddress] = ()
    ) -> StagedFiles:
        """See `RemoteTier.new_segment`."""
        log, name = self.histories[address.key], address.segment_id
        if name not in {attempt.segment_id for attempt in log.attempts}:
            keys = {part: part_key(address, part) for part in Part}
            log.attempts.append(
                Attempt(
                    segment_id=name,
                    keys=keys,
                    is_torn=False,
                    is_foreign=False,
                    is_of_directory=True,
                )
            )
        return LocalTieredStorage.new_segment(self, address, sources)


@dataclass(slots=True, kw_only=True)
class Machine:
    """A broker's log directory with one partition, which grows."""

    key: PartitionKey
    branch: Branch
    directory: WrittenLogDir
    segments: list[int]
    """How many batches each segment has that is still to be rolled."""
    rolled: int = 0
    """Batches in it."""

    def roll(self, count: int) -> None:
        """Roll so many more segments, or as many as there are."""
        for _ in range(min(count, len(self.segments))):
            first, self.rolled = self.rolled, self.rolled + self.segments.pop(0)
            content = joined(self.branch.uploads[first : self.rolled])
            end = beyond(content.batches[-1])
            epochs = write_leader_epoch_checkpoint(self.branch.lineage_below(end))
            (self.directory.folder(self.key) / LEADER_EPOCHS).write_bytes(epochs)
            self.directory.roll(
                self.key,
                content.batches,
                end - 1,
                aborted=content.aborted,
                producers=content.producers,
            )


def machines(environment: Environment, folder: Path) -> Iterator[tuple[Machine, bool]]:
    """Yield the machines of each partition, and whether it is the leader's.

    The other one has the log that an unclean election cut off, or else only its beginning. Each
    has its own segment borders.
    """
    rng = environment.scheduler.rng
    for key, log in environment.histories.items():
        written = log.written
        yield _machine(rng, key, written.log, len(written.log.uploads), folder / f"new-{key}"), True
        older = written.log if written.lost is None else written.lost
        kept = len(older.uploads) if written.lost is not None else written.terms[0]
        yield _machine(rng, key, older, kept, folder / f"old-{key}"), False


def _machine(rng: Random, key: PartitionKey, branch: Branch, batches: int, path: Path) -> Machine:
    segments: list[int] = []
    while (left := batches - sum(segments)) > 0:
        segments.append(rng.randint(1, min(3, left)))
    directory = WrittenLogDir(path)
    directory.begin(key, branch.lineage_below(1))
    return Machine(key=key, branch=branch, directory=directory, segments=segments)


def upload_once(environment: Environment, machine: Machine, run: str, actor: Actor) -> str:
    """Run `tierfold upload` from this machine; return the partition's outcome."""
    context = environment.run_context(actor, run)
    tier = NotedTier(context.tier.store, histories=environment.histories)
    directory = LogDirectory(machine.directory.path)
    try:
        (found,) = upload(
            replace(context, tier=tier), environment.settings, directory, Scope()
        )
    except TierfoldError as error:
        environment.happened(run, "upload: survey failed", str(error))
        return ""
    environment.happened(run, f"upload: {found.outcome}", f"{found.key}: {found.report.reason}")
    return found.outcome
