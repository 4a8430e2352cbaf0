"""How far a whole run is: its partitions and bytes, and how long the rest may take.

The steps of a run report to a `RunProgress`, which passes them on to the user's listener with what
it knows of the run. A run has two parts, the survey of all partitions in scope, and the work on
those that are due; each has a total of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeVar

from tierfold.jobs.context.byte_progress import (
    LOOK_EVERY_S,
    Listener,
    Progress,
    Step,
    unheard,
)
from tierfold.jobs.context.stopping import check
from tierfold.storage.clock import elapsed_s
from tierfold.storage.tiers.listed_count import LISTED

SURVEY: Final = "survey"
"""The step that lists and inspects the partitions."""
REPLAY: Final = "replay"
"""The step that reads what brokers have."""

_T = TypeVar("_T")


class RunProgress:
    """A listener of the steps of one run, for the thread of the verb."""

    def __init__(self, listener: Listener = unheard) -> None:
        self._listener = listener
        self._began_s = elapsed_s()
        self._survey: Step | None = None
        self._reported_s = 0.0
        """When `_report_sometimes` last did."""
        self.begin(None, None)

    def begin(self, partitions: int | None, size_bytes: int | None) -> None:
        """Begin a part of the run with so many partitions and bytes of logs; None: unknown."""
        self._partitions_done, self._partitions_total = 0, partitions
        self._bytes_done, self._bytes_total = 0, size_bytes
        self._part_began_s = elapsed_s()
        self._wave_bytes, self._passes = 0, 1
        self._steps_bytes = 0
        self._objects_listed = 0
        self._records: tuple[int, int | None] = 0, None
        """Of brokers' metadata: read, and all."""

    @contextmanager
    def survey(self) -> Iterator[None]:
        """Report the survey as a step."""
        with Step(self, SURVEY, None) as self._survey:
            yield
        self._survey = None

    def found(self, partitions: int) -> None:
        """Begin to inspect so many partitions: all in scope are known."""
        self.begin(partitions, None)
        self._report_survey()

    def listing(self, listed: Callable[[], _T]) -> _T:
        """Call `listed`, and report meanwhile how many objects it has listed."""
        before, self._reported_s = LISTED.total, 0.0

        def counted() -> None:
            self._objects_listed = LISTED.total - before
            self._report_sometimes()

        with LISTED.reported_to(counted):
            found = listed()
        self._objects_listed = LISTED.total - before
        return found

    def inspected(self, results: Iterable[_T]) -> Iterator[_T]:
        """Yield the results of inspected partitions, and count them."""
        self._reported_s = elapsed_s()
        for result in results:
            self._partitions_done += 1
            self._report_sometimes()
            yield result

    @contextmanager
    def replay(self) -> Iterator[Callable[[int, int], None]]:
        """Report the replay of brokers' metadata as a step: a callable takes records read and all.

        Raises Stopped after a signal.
        """
        with Step(self, REPLAY, None) as step:

            def read(records: int, total: int) -> None:
                check()
                self._records = records, total
                step.advance(0)

            yield read
        self._records = 0, None

    @contextmanager
    def wave(self, size_bytes: int, passes: int = 1) -> Iterator[None]:
        """Count the steps in this block as the work on so many of the run's bytes.

        `passes`: how often the steps together count each byte, at most.
        """
        self._wave_bytes, self._passes, self._steps_bytes = size_bytes, passes, 0
        try:
            yield
        finally:
            self._bytes_done += size_bytes
            self._wave_bytes = 0

    def ended(self, partitions: int) -> None:
        """Count partitions whose work has ended, however it did."""
        self._partitions_done += partitions

    def __call__(self, step: Progress) -> None:
        """Pass the step on, with what is known of the run."""
        in_wave = (self._steps_bytes + step.bytes_done) // self._passes
        run_bytes = self._bytes_done + min(in_wave, self._wave_bytes)
        if step.is_ended:
            self._steps_bytes += step.bytes_done
        total = self._bytes_total
        reported = replace(
            step,
            partitions_done=self._partitions_done,
            partitions_total=self._partitions_total,
            objects_listed=self._objects_listed,
            records_read=self._records[0],
            records_total=self._records[1],
            run_bytes_done=run_bytes if total is None else min(run_bytes, total),
            run_bytes_total=total,
            elapsed_s=elapsed_s() - self._began_s,
        )
        self._listener(replace(reported, remaining_s=self._remaining_s(reported)))

    def _remaining_s(self, progress: Progress) -> float | None:
        share = progress.share
        if not share:
            return None
        return (elapsed_s() - self._part_began_s) * (1 - share) / share

    def _report_sometimes(self) -> None:
        if elapsed_s() - self._reported_s >= LOOK_EVERY_S:
            self._reported_s = elapsed_s()
            self._report_survey()

    def _report_survey(self) -> None:
        if self._survey is not None:
            self._survey.advance(0)
