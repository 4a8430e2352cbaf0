"""Draws the progress of a run on stderr: one bar per step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from tierfold.jobs.context.byte_progress import Progress as StepProgress


class Bars:
    """A listener that draws one bar per step; silent if the console is not a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn: tuple[Progress, TaskID] | None = None

    def __call__(self, step: StepProgress) -> None:
        """Draw the bar of the step; without its total, the bar only shows activity."""
        if not self._console.is_terminal or self._console.quiet:
            return
        if self._drawn is None:
            bars = _bars(self._console)
            self._drawn = bars, bars.add_task(step.step, total=step.bytes_total)
            bars.start()
        bars, bar = self._drawn
        bars.update(bar, completed=step.bytes_done)
        if step.is_ended:
            bars.stop()
            self._drawn = None


def _bars(console: Console) -> Progress:
    # Imported here: most commands draw no bar, and `--help` should be quick.
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        console=console,
    )
