"""Runs the stages in this process, on a pool of threads: no JVM.

The kernels release Python's lock, so the threads share the cores.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias

from tierfold.compaction.model.errors import unexpected
from tierfold.jobs.context.byte_progress import ByteProgress, Listener
from tierfold.jobs.engines.rows import (
    OUT_OF_MEMORY,
    REPORT_BUG,
    USE_SPARK,
    Row,
    RowKind,
    Stage,
    Worker,
)
from tierfold.jobs.engines.stage_executor import StageExecutor, WorkersDied
from tierfold.storage.key_indexes.index_folder import KeyIndexes
from tierfold.storage.tiers.remote_tier import RemoteTier

LazyRows: TypeAlias = Callable[[], list[Row]]
"""Computes the rows; those of `persisted` only once."""


class _Cancelled(BaseException):
    """Ends a task after a signal; not an Exception, so that no error handler catches it."""


def usable_cores() -> int:
    """Return how many cores this process may use; outside Linux, all cores of the machine."""
    if hasattr(os, "sched_getaffinity"):  # Linux only.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalExecutor(StageExecutor[LazyRows]):
    """Runs the stages on threads of this process, one per core."""

    def __init__(
        self,
        tier: RemoteTier,
        listener: Listener,
        cores: int | None = None,
        key_indexes: KeyIndexes | None = None,
    ) -> None:
        super().__init__(cores or usable_cores())
        self._tier = tier
        self._key_indexes = key_indexes
        self._listener = listener
        self._lock = threading.Lock()
        self._bytes_done = 0
        self._is_cancelled = threading.Event()

    def run(
        self,
        stage: Stage,
        rows: LazyRows | None,
        tasks: int | None,
        orders: Sequence[Row] = (),
    ) -> LazyRows:
        """Run the stage on the rows of each task, on the pool."""
        def found() -> list[Row]:
            by_task: dict[int, list[Row]] = defaultdict(list)
            for row in [*orders, *(rows() if rows is not None else ())]:
                by_task[0 if tasks is None else row.task].append(row)
            pieces = self.mapped(stage, [by_task[task] for task in sorted(by_task)])
            return [row for piece in pieces for row in piece]

        return found

    def run_in_turn(
        self,
        stage: Stage,
        rows: LazyRows,
        tasks: int,
        shuffle_partitions: int,  # noqa: ARG002 - rows are not shuffled
    ) -> LazyRows:
        """Run the stage on the rows of each number."""
        return self.run(stage, rows, tasks)

    def mapped(self, stage: Stage, tasks: Sequence[Sequence[Row]]) -> Iterable[list[Row]]:
        """Run the stage on the rows of each task; return the results in the same order."""
        worker = Worker(
            tier=self._tier, advance=self._advance, key_indexes=self._key_indexes
        )

        def work(rows: Sequence[Row]) -> list[Row]:
            worker.proceed()
            return list(stage(worker, rows))

        with ThreadPoolExecutor(self.cores) as pool:
            return [*pool.map(work, tasks)]

    def persisted(self, rows: LazyRows) -> LazyRows:
        """Return the rows, computed once."""
        return cache(rows)

    def of_kinds(self, rows: LazyRows, kinds: frozenset[RowKind]) -> LazyRows:
        """Return the rows of these kinds."""
        return lambda: [row for row in rows() if row.kind in kinds]

    def union(self, rows: LazyRows, more: LazyRows) -> LazyRows:
        """Return the rows of both."""
        return lambda: rows() + more()

    def collected(self, title: str, size_bytes: int, rows: LazyRows) -> list[Row]:
        """Compute the rows, with a bar."""
        progress = ByteProgress(
            self._listener, bytes_done=lambda: self._bytes_done, cancel=self._is_cancelled.set
        )
        return progress.watched(title, size_bytes, rows)

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise WorkersDied for an error in a stage: memory ran out, or there is a bug."""
        try:
            yield
        except WorkersDied:
            raise
        except MemoryError as error:
            raise WorkersDied(OUT_OF_MEMORY, remedy=USE_SPARK) from error
        except Exception as error:
            raise WorkersDied(unexpected(error), remedy=REPORT_BUG) from error

    def _advance(self, size_bytes: int) -> None:
        if self._is_cancelled.is_set():
            raise _Cancelled
        with self._lock:
            self._bytes_done += size_bytes
