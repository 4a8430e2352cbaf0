"""The engine of a simulated run: the product's stages, with the faults of Spark's task scheduling.

A task of any stage may run twice, at the same time or much later; only one output counts. A worker
may die in the middle of a task, which ends the job for all partitions; Spark may die with it, which
ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from tests.faults.simulation.environment_bucket import store_of
from tests.faults.simulation.simulation_scheduler import Actor
from tests.faults.simulation.simulation_settings import Environment
from tests.pictures.one_thread import OneThreadExecutor
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.engines.engine_choice import Engine
from tierfold.jobs.engines.rows import Row, RowKind, Stage, Worker, unpickled
from tierfold.jobs.engines.stage_executor import WorkersDied
from tierfold.storage.key_indexes.index_folder import KeyIndexes
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage

SECOND_ATTEMPTS: Final = 0.05
"""The probability that a task runs twice."""

DEATHS: Final = 0.02
"""The probability that a worker dies in a task."""

ENDS: Final = 0.2
"""The probability that Spark dies with a worker."""

CORES: Final = 2
"""So many that a stage has several tasks even if a round has few segments."""


def simulated(environment: Environment, driver: Actor) -> Engine:
    """Return the engine of a run whose driver is this actor."""

    def start(context: RunContext, _: int) -> SimulatedExecutor:
        return SimulatedExecutor(context, driver, environment)

    return start


class SimulatedExecutor(OneThreadExecutor):
    """Runs the tasks of each stage one after the other in the driver's thread, with faults."""

    def __init__(
        self, context: RunContext, driver: Actor, environment: Environment
    ) -> None:
        indexes = KeyIndexes(store_of(driver, environment.indexes))
        super().__init__(context.tier, context.progress, CORES, indexes)
        self._run = context.run
        self._driver = driver
        self._environment = environment
        self._is_over = False

    def release(self) -> None:
        """See `StageExecutor.release`; records when the stages ended, before any commit."""
        super().release()
        self._environment.stages_ended_ms[self._run] = self._environment.scheduler.now_ms

    def task(self, stage: Stage, rows: Sequence[Row]) -> list[Row]:
        """See `OneThreadExecutor.task`; raises WorkersDied."""
        scheduler = self._driver.scheduler
        if self._is_over:
            raise WorkersDied("Spark died", is_over=True)
        if not scheduler.is_calm and scheduler.rng.random() < DEATHS:
            # What the task has written stays.
            list(islice(stage(self.worker(), rows), scheduler.rng.randrange(len(rows) + 1)))
            self._is_over = scheduler.rng.random() < ENDS
            scheduler.count("Spark died" if self._is_over else "worker died")
            raise WorkersDied("a worker died", is_over=self._is_over)
        if not scheduler.is_calm and scheduler.rng.random() < SECOND_ATTEMPTS:
            scheduler.count("task ran twice")
            name = f"{self._driver.name}'s second attempt"
            scheduler.spawn(name, lambda actor: self._run_again(actor, stage, rows))
        return super().task(stage, rows)

    def _run_again(self, actor: Actor, stage: Stage, rows: Sequence[Row]) -> None:
        """Run a task a second time, as Spark does; its output is dropped."""
        tier = LocalTieredStorage(store_of(actor, self._environment.objects))
        indexes = KeyIndexes(store_of(actor, self._environment.indexes))
        worker = Worker(tier=tier, advance=lambda _: None, key_indexes=indexes)
        for row in stage(worker, rows):
            if row.kind is RowKind.FAILED:
                why = unpickled(row.payload).sentence
                self._environment.happened(actor.name, "task failed", why)
