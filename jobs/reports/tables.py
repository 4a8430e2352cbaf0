"""The parts that the tables of all verbs share. Nothing here decides or computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    LOST_RACE,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    UNKNOWN,
    VACUUMED,
)

Columns: TypeAlias = Sequence[tuple[str, Literal["left", "right"]]]
"""Names and alignment of a table's columns."""

UNBOUNDED: Final = 10_000
"""Columns of a console that never has to cut anything."""

ROWS_MAX: Final = 40
"""Maximum rows of a table, so that it fits a screen. The JSON document has all."""

NO_PARTITIONS: Final = "No partitions: the tier is empty, or nothing matches the patterns."

STYLES: Final = {
    REFUSED: "red",
    FAILED: "red",
    UNKNOWN: "red",
    FENCED: "yellow",
    LOST_RACE: "yellow",
    COMPACTED: "green",
    VACUUMED: "green",
    PLANNED: "cyan",
    LEFT: "blue",
    NOTHING_TO_DO: "dim",
}
"""In the order in which they are printed: outcomes that need a person come first."""

URGENCY: Final = tuple(STYLES)


SENTENCE_COLUMNS: Final = 28
"""Minimum width of a column of sentences; in a narrower terminal they follow the table."""


def print_cut(
    console: Console, title: str, columns: Columns, rows: Sequence[Sequence[str | Text]]
) -> None:
    """Print a table of the first rows, and the number of rows left out.

    The last column holds sentences. No other is ever cut or folded, because the next command may
    need its content: in a terminal too narrow for the table, each row is a line of words instead.
    """
    shown = rows[:ROWS_MAX]
    bare = _table(title, columns, [row[:-1] for row in shown])
    needed = max((cell_len(str(row[-1])) for row in shown), default=cell_len(columns[-1][0]))
    room = console.width - width_of(console, bare) - len(" │ ")
    if room >= min(SENTENCE_COLUMNS, needed):
        console.print(_table(title, columns, shown))
    else:
        _print_narrow(console, bare, title, columns, shown)
    print_beyond(console, len(rows) - ROWS_MAX)


def _print_narrow(
    console: Console,
    bare: Table,
    title: str,
    columns: Columns,
    rows: Sequence[Sequence[str | Text]],
) -> None:
    """Print the table with its sentences below it; if that is too wide, print lines."""
    is_table = width_of(console, bare) <= console.width
    console.print(bare if is_table else Text(title, style="bold"))
    for row in rows:
        named = zip(columns[1:-1], row[1:-1], strict=True)
        cells = ["; ".join(str(cell).splitlines()) for _, cell in named]
        said = [
            f"{name} {cell}" for (name, _), cell in zip(columns[1:], cells, strict=False) if cell
        ]
        if not is_table:
            console.print(Text(f"{row[0]}: {', '.join(said)}"), soft_wrap=True)
        if str(row[-1]):
            console.print(Text.assemble(f"{row[0]}: ", row[-1]), soft_wrap=True)


def width_of(console: Console, table: Table) -> int:
    """Return how many columns the table needs without cutting or folding."""
    return console.measure(table, options=console.options.update(width=UNBOUNDED)).maximum


def _table(title: str, columns: Columns, rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table of these rows; if they lack the last column, so does the table."""
    table = Table(title=title, title_justify="left")
    for number, (name, justify) in enumerate(columns, start=1):
        if number < len(columns):
            table.add_column(name, justify=justify, no_wrap=True)
        elif not rows or len(rows[0]) == len(columns):
            table.add_column(name, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def print_beyond(console: Console, count: int) -> None:
    """Print how many lines were left out, if any."""
    if count > 0:
        console.print(f"… and {spaced(count)} more; --json lists all.")


def styled(outcome: str) -> Text:
    """Return the outcome in its colour."""
    return Text(outcome, style=STYLES[outcome])


def sentences(reason: str, notes: Iterable[str]) -> Text:
    """Return the last column: the reason and the notes."""
    return Text(printable("; ".join(filter(None, (reason, *notes)))))


def outcomes_line(outcomes: Sequence[str], order: Sequence[str]) -> str:
    """Return the number of partitions, in total and per outcome in that order."""
    counts = {name: spaced(outcomes.count(name)) for name in order if name in outcomes}
    per_outcome = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{counted(len(outcomes), 'partition')}: {per_outcome}."


def of_markers(count: int) -> str:
    """Return a clause on how many of the records are markers; empty if there are none."""
    return f" ({counted(count, 'transaction marker')} among them)" if count else ""


def offsets(start: int, next_offset: int) -> str:
    """Format the range from `start` to the last offset before `next_offset`, both included.

    If `start` is not below `next_offset`, it belongs to another range: only the last is shown.
    """
    return f"{start}–{next_offset - 1}" if start < next_offset else f"≤ {next_offset - 1}"
