"""Progress bars over bytes, on stderr."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)


def byte_bars(console: Console) -> Progress:
    """Return bars that count bytes; they are hidden if the console is not a terminal."""
    return Progress(
        TextColumn("{task.description:<8}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
