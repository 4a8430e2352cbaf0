"""Shows the progress of a run on stderr: one bar in a terminal, elsewhere a line every minute."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.filesize import decimal

from tierfold.compaction.model.wording import counted, duration, spaced

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tierfold.jobs.context.byte_progress import Progress as RunProgress

_log: Final = logging.getLogger(__name__)

LINE_EVERY_S: Final = 60.0
"""How often a line is logged if stderr is no terminal."""


class Bar:
    """A listener that draws one bar for a whole run, or logs lines if there is no terminal."""

    def __init__(self, console: Console, is_hidden: Callable[[], bool] = lambda: False) -> None:
        """`is_hidden`: returns whether no bar is drawn, as with `-q`; lines have a level."""
        self._console = console
        self._is_hidden = is_hidden
        self._drawn: tuple[Progress, TaskID] | None = None
        self._lines = 0
        """How many times `LINE_EVERY_S` had passed when the last line was logged."""

    def __call__(self, progress: RunProgress) -> None:
        """Show how far the run is; while no total is known, the bar only shows activity."""
        if self._console.is_terminal:
            if not self._is_hidden():
                self._draw(progress)
        elif progress.elapsed_s // LINE_EVERY_S > self._lines:
            self._lines = int(progress.elapsed_s // LINE_EVERY_S)
            elapsed = duration(round(progress.elapsed_s) * 1000)
            parts = (f"{elapsed} so far", far(progress), left(progress))
            _log.info("%s: %s", progress.step, ", ".join(filter(None, parts)))

    def stop(self) -> None:
        """End the bar: what is printed next belongs below it."""
        if self._drawn is not None:
            self._drawn[0].stop()
            self._drawn = None

    def _draw(self, progress: RunProgress) -> None:
        if self._drawn is None:
            bars = _bars(self._console)
            self._drawn = bars, bars.add_task(progress.step, total=None, far="", left="")
            bars.start()
        bars, bar = self._drawn
        bars.update(
            bar,
            description=progress.step,
            total=None if progress.share is None else 1.0,
            completed=progress.share or 0.0,
            far=far(progress),
            left=left(progress),
        )


def far(progress: RunProgress) -> str:
    """Return how much is done, as `3/20 partitions, 1.2 GB/30.5 GB`, listed or read."""
    parts = []
    if progress.partitions_total is not None:
        total = counted(progress.partitions_total, "partition")
        parts.append(f"{spaced(progress.partitions_done)}/{total}")
    if progress.objects_listed:
        parts.append(f"{counted(progress.objects_listed, 'object')} listed")
    if progress.records_total is not None:
        total = counted(progress.records_total, "record")
        parts.append(f"{spaced(progress.records_read)}/{total}")
    if progress.run_bytes_total:
        done, size = decimal(progress.run_bytes_done), decimal(progress.run_bytes_total)
        parts.append(f"{done}/{size}")
    return ", ".join(parts)


def left(progress: RunProgress) -> str:
    """Return about how long the rest takes; empty: unknown, or less than a second."""
    seconds = round(progress.remaining_s or 0)
    return f"about {duration(seconds * 1000)} left" if seconds else ""


def _bars(console: Console) -> Progress:
    # Imported here: most commands draw no bar, and `--help` should be quick.
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[far]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        expand=True,
        transient=True,  # The report below says how long it took.
    )
