"""What the tables of all verbs have in common. Nothing here decides or computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from compaction.shown import printable
from jobs.outcome_reports import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    LOST_RACE,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    SWEPT,
    UNKNOWN,
)

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
    SWEPT: "green",
    PLANNED: "cyan",
    LEFT: "blue",
    NOTHING_TO_DO: "dim",
}
"""In the order in which they are told: what needs a person's eye comes first."""

URGENCY: Final = tuple(STYLES)


def print_cut(console: Console, table: Table, rows: Sequence[Sequence[str | Text]]) -> None:
    """The table with these rows, or the first of them, and how many there are beyond."""
    for row in rows[:ROWS_MAX]:
        table.add_row(*row)
    console.print(table)
    print_beyond(console, len(rows) - ROWS_MAX)


def print_beyond(console: Console, count: int) -> None:
    """How many lines were left out; nothing where none was."""
    if count > 0:
        console.print(f"… and {count} more; --json lists all.")


def styled(outcome: str) -> Text:
    """The outcome, in its colour."""
    return Text(outcome, style=STYLES[outcome])


def sentences(reason: str, notes: Iterable[str]) -> Text:
    """The last column: why, and what else there is to say."""
    return Text(printable("; ".join(filter(None, (reason, *notes)))))


def outcomes_line(outcomes: Sequence[str], order: Sequence[str]) -> str:
    """How many partitions there are, and how many ended in each way, told in that order."""
    told = ", ".join(f"{outcomes.count(name)} {name}" for name in order if name in outcomes)
    return f"{counted(len(outcomes), 'partition')}: {told}."


def offsets(start: int, next_offset: int) -> str:
    """From the first offset to the last, both included, where `next_offset` comes after it.

    A start that is not below it belongs to another range: then only the last is shown.
    """
    return f"{start}–{next_offset - 1}" if start < next_offset else f"≤ {next_offset - 1}"


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural where it is not one."""
    return f"{grouped(number)} {noun}{'' if number == 1 else 's'}"


def grouped(number: int) -> str:
    """Thousands apart, as SI writes them."""
    return f"{number:,}".replace(",", " ")
