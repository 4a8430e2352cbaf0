"""Sizes the waves of a run by the time that each one takes, and ends them with `--max-duration`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from tierfold.compaction.planning.waves import WaveLimit
from tierfold.jobs.context.stopping import is_stopping, stopped_by
from tierfold.storage.clock import elapsed_s, now_ms

DURATION_PASSED: Final = "--max-duration has passed"

_T = TypeVar("_T")


@dataclass(slots=True, kw_only=True)
class Pace:
    """How large the next wave may be, and whether it may begin."""

    limit: WaveLimit
    """Of the next wave."""
    started_at_ms: int
    """When the run began, epoch milliseconds."""
    max_duration_ms: int | None
    """No wave begins once this much time has passed; None: no limit."""
    _left: tuple[int, int] = (0, 0)
    """Partitions and work of the present wave that other runs do."""

    @property
    def ends_at_ms(self) -> int | None:
        """When `--max-duration` has passed, epoch milliseconds; None: no end is set."""
        most_ms = self.max_duration_ms
        return None if most_ms is None else self.started_at_ms + most_ms

    @property
    def left_ms(self) -> int | None:
        """What is left of `--max-duration`; None: no end is set."""
        return None if self.ends_at_ms is None else self.ends_at_ms - now_ms()

    @property
    def is_over(self) -> bool:
        """Whether `--max-duration` has passed."""
        return self.left_ms is not None and self.left_ms <= 0

    @contextmanager
    def timed(self, partitions: int, work: int) -> Iterator[None]:
        """Time a wave of so many partitions, and size the next one by it; `work` as in its limit.

        A wave that fails, or is left to other runs, says nothing about the next one.
        """
        self._left = 0, 0
        began_s = elapsed_s()
        yield
        took_ms = round(1000 * (elapsed_s() - began_s))
        partitions, work = partitions - self._left[0], work - self._left[1]
        if not partitions:
            return
        share = self.limit.share(partitions, work)
        self.limit = self.limit.next(share=share, took_ms=took_ms, left_ms=self.left_ms)

    def leave(self, partitions: int, work: int) -> None:
        """So much of the present wave is left to other runs, and takes no time."""
        self._left = partitions, work

    def waves(
        self, partitions: Sequence[_T], work_of: Callable[[_T], int]
    ) -> Iterator[Sequence[_T]]:
        """Yield the partitions wave by wave, until a signal arrives or `--max-duration` ends.

        The time until the next wave is asked for counts as the wave's.
        """
        first = 0
        while first < len(partitions) and not is_stopping() and not self.is_over:
            works = [work_of(one) for one in partitions[first : first + self.limit.partitions]]
            count = self.limit.fitting(works)
            with self.timed(count, sum(works[:count])):
                yield partitions[first : first + count]
            first += count


def pace_ended() -> str:
    """Why the waves have ended before all was done, a clause."""
    by = stopped_by()
    return f"stopped by {by}" if by else DURATION_PASSED
