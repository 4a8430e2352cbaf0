"""What is printed of a result: which partitions, in which order, and how much of each.

A view changes nothing that a verb does, nor its outcome and its totals.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from tierfold.compaction.model.wording import spaced
from tierfold.jobs.reports.tables import ROWS_MAX, UNBOUNDED

_Partition = TypeVar("_Partition")
Entry: TypeAlias = Mapping[str, Any]
"""A partition's entry in the document."""
Columns: TypeAlias = Mapping[str, tuple[str, ...]]
"""The columns of a table of partitions, each with the fields of an entry that it shows. A field
within an object has a dotted name, as in `to_pandas()`."""

PARTITION: Final = "partition"
"""The column that every table begins with."""

_HEAD: Final = ("topic", "partition", "topic_id", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is printed of a result; the default: all of it, in the verb's own order."""

    only: tuple[str, ...] = ()
    """Show a partition that meets one of these: its outcome, if one has this name, else the code of
    a refusal, or words of its reason. Empty: show all."""
    sort: str = ""
    """The column that orders the rows, the largest number first; empty: the verb's own order."""
    is_wide: bool = False
    """Show all rows of a table, and fold none."""
    has_segments: bool = False
    """Show the lists of segments in a document."""

    @property
    def rows_max(self) -> int:
        """How many rows of a table are shown."""
        return UNBOUNDED if self.is_wide else ROWS_MAX

    def selected(
        self,
        partitions: Iterable[_Partition],
        entry: Callable[[_Partition], Entry],
        columns: Columns,
        outcomes: Collection[str],
    ) -> list[_Partition]:
        """Return the partitions that are shown, in the order of `sort`, else in theirs.

        `outcomes`: all that a partition may have.
        """
        if not self.only and not self.sort:
            return [*partitions]
        pairs = ((partition, entry(partition)) for partition in partitions)
        shown = [pair for pair in pairs if not self.only or self._meets(pair[1], outcomes)]
        if self.sort and self.sort != PARTITION:
            names = columns[self.sort]
            shown.sort(key=lambda pair: [_largest_first(_field(pair[1], name)) for name in names])
        return [partition for partition, _ in shown]

    def _meets(self, entry: Entry, outcomes: Collection[str]) -> bool:
        codes = {part["code"] for part in entry.get("refusals", ())}
        reason = entry["reason"].lower()
        return any(
            one == entry["outcome"] if one in outcomes else one in codes or one.lower() in reason
            for one in self.only
        )

    def line(self, shown: int, of_all: int) -> str:
        """Return what `only` leaves out, as a sentence; empty: it was not given."""
        if not self.only:
            return ""
        by = " ".join(f"--only {one!r}" if " " in one else f"--only {one}" for one in self.only)
        return f"Shown: {spaced(shown)} of {spaced(of_all)} ({by}). The totals count all of them."


ALL: Final = View()


def csv_of(entries: Iterable[Entry], columns: Columns) -> str:
    """Return the columns of the table by RFC 4180, under the document's names, with plain numbers.

    A cell is empty for null and for what an entry lacks; sentences of a list are joined.
    """
    shown = [name for fields in columns.values() for name in fields]
    head = _HEAD if PARTITION in columns else ()
    names = [*dict.fromkeys((*head, *shown))]
    text = io.StringIO()
    writer = csv.writer(text)  # Its default dialect is that of RFC 4180.
    writer.writerow(names)
    writer.writerows([_cell(_field(entry, name)) for name in names] for entry in entries)
    return text.getvalue()


def _field(entry: Entry, name: str) -> Any:  # noqa: ANN401 - of any type that JSON has
    """The field of this dotted name; None: it is null, or missing."""
    value: Any = entry
    for part in name.split("."):
        value = None if value is None else value.get(part)
    return value


def _cell(value: Any) -> Any:  # noqa: ANN401 - of any type that JSON has
    return "; ".join(value) if isinstance(value, list) else value


def _largest_first(value: float | None) -> tuple[bool, float]:
    """A sort key: numbers downwards, then what is unknown."""
    return value is None, -(value or 0)
