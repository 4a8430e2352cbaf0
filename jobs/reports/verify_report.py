"""The result of `verify`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import alike, counted, spaced
from tierfold.jobs.pipeline.partition_report import LEFT
from tierfold.jobs.reports.refusals_report import (
    NAMED_MAX,
    in_short,
    print_refusals,
    see_below,
)
from tierfold.jobs.reports.result import Result, concluded, fields
from tierfold.jobs.reports.tables import NO_PARTITIONS, Column, of_markers, print_rows
from tierfold.jobs.reports.views import ALL, Columns, View
from tierfold.jobs.verbs.verified import Verified

_NOT_LISTED: Final = frozenset({"key", "notes", "left", "refusal", "segments_near"})
"""Fields that an entry has under other names."""


class VerifyResult(Result[Verified]):
    """Whether each partition's live segments are sound."""

    __slots__ = ()

    verb = "verify"

    def entry(self, partition: Verified) -> dict[str, Any]:
        """See `Result`."""
        names = (field.name for field in fields_of(partition) if field.name not in _NOT_LISTED)
        entry = fields(partition, *names)
        if partition.segments_near:
            entry["segments_near"] = partition.segments_near
        if partition.second_opinion is not None:
            entry["second_opinion"] = fields(partition.second_opinion, "keys", "differing", "late")
        return concluded(partition, partition.notes, partition.refusals) | entry

    def columns(self) -> Columns:
        """See `Result`."""
        return FIELDS

    def print_tables(self, console: Console, view: View = ALL) -> None:
        """See `Result`: corrupt partitions come first, then refused ones."""
        if not self.partitions:
            console.print(NO_PARTITIONS)
            return
        shown = self.shown(view)
        rows = shown if view.sort else sorted(shown, key=_urgency)
        _print_verified(console, rows, len(self.partitions), view.rows_max)
        for line in _totals(self.partitions):
            console.print(line)


def _print_verified(
    console: Console, rows: Sequence[Verified], of_all: int, rows_max: int
) -> None:
    shared = _shared_notes(rows)
    cut = [_without(verified, shared) for verified in rows]
    print_rows(console, "verify", _COLUMNS, cut, rows_max=rows_max)
    for verified in rows[:rows_max]:
        for corruption in alike(verified.corruptions):
            sentence = printable(f"{verified.key}: {corruption}")
            console.print(Text(sentence, style="red"))
    print_refusals(console, rows, of_all=of_all)
    for note, keys in shared.items():
        sentence = printable(f"{in_short(keys, of_all)}: {note}")
        console.print(Text(sentence, style="dim"))


def _shared_notes(partitions: Sequence[Verified]) -> dict[str, list[PartitionKey]]:
    """The notes that many partitions have, with these."""
    said: dict[str, list[PartitionKey]] = defaultdict(list)
    for verified in partitions:
        for note in verified.notes:
            said[note].append(verified.key)
    return {note: keys for note, keys in said.items() if len(keys) > NAMED_MAX}


def _without(verified: Verified, shared: Container[str]) -> Verified:
    return replace(verified, notes=tuple(note for note in verified.notes if note not in shared))


def _urgency(verified: Verified) -> tuple[bool, bool, PartitionKey]:
    return not verified.corruptions, verified.refusal is None, verified.key


def _conclusion(verified: Verified) -> Text:
    result = Text("sound")
    if verified.corruptions:
        result = Text(counted(len(verified.corruptions), "corruption"), style="red")
    elif verified.refusal is not None:
        result = Text(f"not verified, {see_below(verified, '')}", style="red")
    elif verified.left:
        result = Text(f"left: {verified.left}", style="yellow")
    for note in verified.notes:
        result.append(printable(f"; {note}"), style="dim")
    return result


def _count(name: str) -> Callable[[Verified], str]:
    of = attrgetter(name)
    return lambda verified: "–" if of(verified) is None else spaced(of(verified))


_COLUMNS: Final[Sequence[Column[Verified]]] = (
    ("partition", "left", lambda verified: str(verified.key)),
    ("segments", "right", _count("segments")),
    ("batches", "right", _count("batches")),
    ("records", "right", _count("records")),
    ("read", "right", lambda verified: decimal(verified.bytes_read)),
    ("index entries", "right", _count("index_entries")),
    ("keys compared", "right", _count("keys_compared")),
    ("result", "left", _conclusion),
)

FIELDS: Final[Columns] = {
    "partition": ("topic", "partition"),
    "segments": ("segments",),
    "batches": ("batches",),
    "records": ("records",),
    "read": ("bytes_read",),
    "index entries": ("index_entries",),
    "keys compared": ("keys_compared",),
    "result": ("corruptions", "reason", "notes"),
}
"""The fields of an entry that the columns show."""


def _totals(partitions: Sequence[Verified]) -> Iterator[Text]:
    """What is corrupt or else sound; and, on lines of their own, what was not verified."""
    corruptions = sum(len(verified.corruptions) for verified in partitions)
    refused = sum(verified.refusal is not None for verified in partitions)
    left = sum(verified.outcome == LEFT for verified in partitions)
    of_all = counted(len(partitions), "partition")
    if corruptions:
        corrupt = sum(bool(verified.corruptions) for verified in partitions)
        yield Text(
            f"{counted(corruptions, 'corruption')} in {corrupt} of {of_all}", style="bold red"
        )
    elif refused + left < len(partitions) or not refused:
        yield Text(_sound(partitions), style="yellow" if refused or left else "green")
    if refused:
        yield Text(
            f"not verified: {spaced(refused)} of {of_all} refused, which may be sound or corrupt",
            style="bold red",
        )
    if left:
        yield Text(f"left: {counted(left, 'partition')}", style="yellow")


def _sound(partitions: Sequence[Verified]) -> str:
    def summed(name: str) -> int:
        return sum(getattr(verified, name) or 0 for verified in partitions)

    keys = ""
    if any(verified.keys_compared is not None for verified in partitions):
        keys = f", {spaced(summed('keys_compared'))} keys agree with the originals"
    if deleted := summed("keys_deleted"):
        keys += f" ({spaced(deleted)} of them deleted)"
    seconds = [verified.second_opinion for verified in partitions if verified.second_opinion]
    if seconds:
        keys += f", {spaced(sum(second.keys for second in seconds))} by a second opinion"
    near = ""
    if count := summed("segments_near"):
        near = f"; logs read from log directories, not from the tier: {spaced(count)}"
    return (
        f"verified: {counted(summed('segments'), 'segment')}, {spaced(summed('batches'))} batches,"
        f" {spaced(summed('records'))} records{of_markers(summed('markers'))}{keys}{near}"
    )
