"""What the tables of all verbs have in common. Nothing here decides or computes."""

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
"""Names of a table's columns, and on which side their cells are flush."""

UNBOUNDED: Final = 10_000
"""Columns of a console in which nothing has to be cut."""

ROWS_MAX: Final = 40
"""Rows of a table before it is cut: a summary fits a screen. The JSON document has them all."""

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
"""In the order in which they are told: what needs a person's eye comes first."""

URGENCY: Final = tuple(STYLES)


SENTENCE_COLUMNS: Final = 28
"""What a column of sentences needs at least; in a narrower terminal they follow the table."""


def print_cut(
    console: Console, title: str, columns: Columns, rows: Sequence[Sequence[str | Text]]
) -> None:
    """A table with these rows, or the first of them, and how many there are beyond.

    The last column is of sentences. No other is ever cut or folded, for the next command may need
    what is in it: in a terminal too narrow for the table, each row is a line of words instead.
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
    """The table without its sentences, which follow it; where even that is too wide, lines."""
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
    """How many columns the table takes where nothing of it is cut or folded."""
    return console.measure(table, options=console.options.update(width=UNBOUNDED)).maximum


def _table(title: str, columns: Columns, rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table of these rows; where they lack the last column, so does the table."""
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
    """How many lines were left out; nothing where none was."""
    if count > 0:
        console.print(f"… and {spaced(count)} more; --json lists all.")


def styled(outcome: str) -> Text:
    """The outcome, in its colour."""
    return Text(outcome, style=STYLES[outcome])


def sentences(reason: str, notes: Iterable[str]) -> Text:
    """The last column: why, and what else there is to say."""
    return Text(printable("; ".join(filter(None, (reason, *notes)))))


def outcomes_line(outcomes: Sequence[str], order: Sequence[str]) -> str:
    """How many partitions there are, and how many ended in each way, told in that order."""
    counts = {name: spaced(outcomes.count(name)) for name in order if name in outcomes}
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{counted(len(outcomes), 'partition')}: {told}."


def offsets(start: int, next_offset: int) -> str:
    """From the first offset to the last, both included, where `next_offset` comes after it.

    A start that is not below it belongs to another range: then only the last is shown.
    """
    return f"{start}–{next_offset - 1}" if start < next_offset else f"≤ {next_offset - 1}"
