"""Stages 4 to 8 of a run in one process, with the faults of Spark's task scheduling.

A task may run twice, at the same time or long after its twin, and only one receipt counts. A worker
may die in a group, which fails the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException

from tests.faults.simulation.environment_store import VirtualStore
from tests.faults.simulation.simulation_scheduler import Actor
from tests.faults.simulation.simulation_settings import Environment
from tests.pictures.sparkless import carried_out
from tierfold.compaction.commits.receipts import GroupReceipt
from tierfold.compaction.model.errors import TierfoldError
from tierfold.jobs.pipeline.check_and_commit import Rewritten, RoundResult, check_and_commit
from tierfold.jobs.pipeline.task_assignment import GroupOrder, Round
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.segments.group_rewrite import RecordBits, rewrite_group
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage

TWINS: Final = 0.05
"""How often a task runs twice."""

DEATHS: Final = 0.02
"""How often a worker dies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualPipeline:
    """What `jobs.pipeline.spark_executor.Pipeline` is to `Waves`."""

    driver: Actor
    environment: Environment
    tier: LocalTieredStorage
    has_died: bool = False
    """Always false: there is no Spark session that could end."""

    def run(self, rounds: Sequence[Round], catalog: Catalog) -> list[RoundResult]:
        """Scan, reduce, rewrite, check and commit; one result per round, in their order."""
        rewritten = [self._rewritten(work) for work in rounds]
        began_ms = self.environment.scheduler.now_ms
        results = check_and_commit(
            rewritten, catalog, self.tier, lambda: self.environment.scheduler.now_ms
        )
        for result in results:
            if result.proposal is not None and result.proposal.at_ms < began_ms:
                self.environment.broken(
                    f"a commit of {began_ms} bears the time {result.proposal.at_ms}"
                )
        return results

    def _rewritten(self, work: Round) -> Rewritten:
        try:
            return carried_out(
                self.tier, work, buckets=work.buckets, rewrite=self._by_workers
            ).rewritten
        except TierfoldError as error:
            return Rewritten(round=work, failure=str(error))

    def _by_workers(
        self, tier: LocalTieredStorage, order: GroupOrder, bits: RecordBits
    ) -> GroupReceipt:
        scheduler = self.driver.scheduler
        if not scheduler.is_calm and scheduler.rng.random() < DEATHS:
            scheduler.count("worker died")
            raise PySparkException("a worker died: Exception")
        if not scheduler.is_calm and scheduler.rng.random() < TWINS:
            scheduler.count("task ran twice")
            scheduler.spawn(
                f"{self.driver.name}'s twin", lambda twin: self._twin(twin, order, bits)
            )
        return rewrite_group(tier, order.task, bits)

    def _twin(self, twin: Actor, order: GroupOrder, bits: RecordBits) -> None:
        """Rewrite a group a second time; Spark drops its receipt."""
        try:
            rewrite_group(
                LocalTieredStorage(VirtualStore(twin, self.environment.objects)),
                order.task,
                bits,
            )
        except TierfoldError as error:
            twin.scheduler.note(f"{twin.name}: {error.what}")
