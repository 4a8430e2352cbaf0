"""The product's local engine without threads: faster for a few records, and deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tierfold.jobs.engines.local_executor import LazyRows, LocalExecutor
from tierfold.jobs.engines.rows import Row, Stage, Worker


class OneThreadExecutor(LocalExecutor):
    """Runs the tasks of a stage one after the other, in the caller's thread, without progress."""

    def mapped(self, stage: Stage, tasks: Sequence[Sequence[Row]]) -> Iterable[list[Row]]:
        """See `LocalExecutor.mapped`."""
        return [self.task(stage, rows) for rows in tasks]

    def task(self, stage: Stage, rows: Sequence[Row]) -> list[Row]:
        """Run one task; return its results."""
        return list(stage(self.worker(), rows))

    def worker(self) -> Worker:
        """Return what a task gets."""
        return Worker(tier=self._tier, advance=lambda _: None, key_indexes=self._key_indexes)

    def collected(self, title: str, size_bytes: int, rows: LazyRows) -> list[Row]:  # noqa: ARG002
        """See `LocalExecutor.collected`."""
        return rows()
