"""The parts that the tables of all verbs share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    LOST_RACE,
    NOTHING_TO_DO,
    PLANNED,
    PUBLISHED,
    REFUSED,
    UNKNOWN,
    UPLOADED,
    VACUUMED,
)
from tierfold.jobs.reports.screen import folded, widest_piece

_Row = TypeVar("_Row")
Cells: TypeAlias = Sequence[str | Text]
Column: TypeAlias = tuple[str, Literal["left", "right"], Callable[[_Row], str | Text]]
"""The column's name, its alignment, and the text of its cell in a row."""

UNBOUNDED: Final = 10_000
"""Columns of a console that never has to cut anything."""

ROWS_MAX: Final = 40
"""Maximum rows of a table. The JSON document has all."""

OTHERS_MAX: Final = 10
"""Of a longer table, how many rows are shown beside those that need a person or another run."""

DRY_RUN: Final = "dry run: nothing is changed"
NOT_PUBLISHED: Final = "nothing is changed: publishing is not on"

NO_PARTITIONS: Final = "No partitions: the tier is empty, or nothing matches the patterns."

STYLES: Final = {
    FAILED: "red",
    UNKNOWN: "red",
    REFUSED: "red",
    FENCED: "yellow",
    LOST_RACE: "yellow",
    COMPACTED: "green",
    PUBLISHED: "green",
    VACUUMED: "green",
    UPLOADED: "green",
    PLANNED: "cyan",
    LEFT: "blue",
    NOTHING_TO_DO: "dim",
}
"""In the order in which they are printed: outcomes that need a person come first."""

URGENCY: Final = tuple(STYLES)

_URGENT: Final = frozenset((FAILED, UNKNOWN, REFUSED, FENCED, LOST_RACE))

STEP: Final = re.compile(r"(?<=[.)]) (?=[1-9]\. [A-Z])")
"""What separates the steps of a remedy: `… . 1. Look. 2. Run again.`"""

SENTENCE_COLUMNS: Final = 28
"""Minimum width of a column of sentences; in a narrower terminal they follow the table."""


class Ranked(Protocol):
    """What a table orders its rows by."""

    @property
    def key(self) -> PartitionKey:
        """The partition."""

    @property
    def outcome(self) -> str:
        """One of `URGENCY`."""


def by_urgency(partition: Ranked) -> tuple[int, PartitionKey]:
    """Return the place of a partition's row among those of its table."""
    return URGENCY.index(partition.outcome), partition.key


def rows_shown(outcomes: Sequence[str], rows_max: int) -> int:
    """Return how many rows of a table are shown whose first ones are urgent, so that it fits.

    `outcomes`: those of all its rows.
    """
    if len(outcomes) <= rows_max:
        return rows_max
    return min(rows_max, sum(one in _URGENT for one in outcomes) + OTHERS_MAX)


def print_rows(
    console: Console,
    title: str,
    columns: Sequence[Column[_Row]],
    rows: Sequence[_Row],
    *,
    rows_max: int = ROWS_MAX,
    last_columns: int = SENTENCE_COLUMNS,
) -> None:
    """Print a table of the first rows, and the number of rows left out; nothing without rows.

    The last column holds sentences. No other column is ever cut or folded, because the next command
    may need its content: in a terminal too narrow for the table, each row is a line of text
    instead. A sentence follows the table if `last_columns` are not left for it, or if a piece of it
    is longer than its column.
    """
    if not rows:
        return
    cells = [[cell(row) for _, _, cell in columns] for row in rows[:rows_max]]
    name = columns[-1][0]
    bare, whole = _unfolded(title, columns[:-1]), _unfolded(title, columns[:-1])
    whole.add_column(name)
    for row in cells:
        bare.add_row(*row[:-1])
    needed = max(cell_len(name), *(cell_len(str(row[-1])) for row in cells))
    space = console.width - width_of(console, bare) - len(" │ ")
    if space >= min(last_columns, needed):
        below = [row for row in cells if widest_piece(str(row[-1])) > space]
        for row in cells:
            last = "see below" if row in below else folded(Text.assemble(row[-1]), space)
            whole.add_row(*row[:-1], last)
        console.print(whole)
        print_omitted(console, len(rows) - rows_max)
        _print_sentences(console, below)
    else:
        names = [column[0] for column in columns]
        _print_narrow(console, bare, names, cells, len(rows) - rows_max)


def _print_narrow(
    console: Console, bare: Table, names: Sequence[str], rows: Sequence[Cells], left_out: int
) -> None:
    """Print the table with its sentences below it; if that is too wide, print lines.

    `left_out`: how many rows it lacks.
    """
    is_table = width_of(console, bare) <= console.width
    console.print(bare if is_table else Text(str(bare.title), style="bold"))
    if is_table:
        print_omitted(console, left_out)
    for row in rows:
        if not is_table:
            texts = ["; ".join(str(cell).splitlines()) for cell in row[:-1]]
            named = [f"{name} {text}" for name, text in zip(names, texts, strict=False) if text]
            console.print(Text(f"{row[0]}: {', '.join(named[1:])}"))
        _print_sentences(console, [row])
    if not is_table:
        print_omitted(console, left_out)


def _print_sentences(console: Console, rows: Sequence[Cells]) -> None:
    for row in rows:
        if str(row[-1]):
            print_paragraph(console, Text.assemble(f"{row[0]}: ", row[-1]))


def print_paragraph(console: Console, text: Text) -> None:
    """Print a text, below an empty line if it is longer than one; each numbered step on its own."""
    if cell_len(text.plain) > console.width:
        console.print()
    steps = text.divide(step.start() for step in STEP.finditer(text.plain))
    console.print(Text("\n ").join(steps))


def width_of(console: Console, table: Table) -> int:
    """Return how many columns the table needs without cutting or folding."""
    return console.measure(table, options=console.options.update(width=UNBOUNDED)).maximum


def _unfolded(title: str, columns: Sequence[Column[_Row]]) -> Table:
    table = Table(title=title, title_justify="left")
    for name, justify, _ in columns:
        table.add_column(name, justify=justify, no_wrap=True)
    return table


def print_omitted(console: Console, count: int, indent: str = "") -> None:
    """Print how many lines were left out, if any."""
    if count > 0:
        console.print(f"{indent}… and {spaced(count)} more; --json lists all.")


def in_words(outcome: str) -> str:
    """Return the outcome as people read it; JSON has `nothing_to_do` for `nothing to do`."""
    return outcome.replace("_", " ")


def styled(outcome: str) -> Text:
    """Return the outcome in words, in its colour."""
    return Text(in_words(outcome), style=STYLES[outcome])


def sentences(reason: str, notes: Iterable[str]) -> Text:
    """Return the last column: the reason and the notes."""
    return Text(printable("; ".join(filter(None, (reason, *notes)))))


def outcomes_line(outcomes: Sequence[str], order: Sequence[str]) -> str:
    """Return the number of partitions, in total and per outcome in that order."""
    names = [name for name in order if name in outcomes]
    per_outcome = [f"{spaced(outcomes.count(name))} {in_words(name)}" for name in names]
    found = ", ".join(per_outcome) if len(names) > 1 else in_words(names[0])
    return f"{counted(len(outcomes), 'partition')}: {found}."


def of_markers(count: int) -> str:
    """Return a clause on how many of the records are markers; empty if there are none."""
    return f" (including {counted(count, 'transaction marker')})" if count else ""


def offsets(start: int, next_offset: int) -> str:
    """Format the range from `start` to the last offset before `next_offset`, both included.

    If `start` is not below `next_offset`, it belongs to another range: only the last is shown.
    """
    return f"{start}–{next_offset - 1}" if start < next_offset else f"≤ {next_offset - 1}"


def exact_bytes(size_bytes: int) -> str:
    """Return a size as `3.1 MB (3 133 127 bytes)`, below a kilobyte as `489 bytes`."""
    short = decimal(size_bytes)
    return short if short.endswith(("bytes", "byte")) else f"{short} ({spaced(size_bytes)} bytes)"


def clean_below(cleaner_offset: int | None) -> str:
    """Return the offset below which all is clean; "none" if nothing is."""
    return str(cleaner_offset) if cleaner_offset else "none"
