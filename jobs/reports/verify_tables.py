"""The table of `verify`. Nothing here decides or computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.model.redaction import printable
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.reports.tables import NO_PARTITIONS, ROWS_MAX, Columns, of_markers, print_cut
from tierfold.jobs.verbs.verify import Verified

_COLUMNS: Final[Columns] = (
    ("partition", "left"),
    ("segments", "right"),
    ("batches", "right"),
    ("records", "right"),
    ("read", "right"),
    ("index entries", "right"),
    ("keys compared", "right"),
    ("result", "left"),
)


def print_verified(console: Console, partitions: Sequence[Verified]) -> None:
    """Print the summary of `verify`; corrupt partitions come first, with all their corruptions."""
    if not partitions:
        console.print(NO_PARTITIONS)
        return
    ordered = sorted(partitions, key=lambda verified: (not verified.corruptions, verified.key))
    print_cut(console, "verify", _COLUMNS, [_verified_row(verified) for verified in ordered])
    for verified in ordered[:ROWS_MAX]:
        for corruption in verified.corruptions:
            sentence = printable(f"{verified.key}: {corruption}")
            console.print(Text(sentence, style="red"), soft_wrap=True)
    console.print(_verified_sum(partitions), soft_wrap=True)


def _verified_row(verified: Verified) -> tuple[str | Text, ...]:
    result = (
        Text(counted(len(verified.corruptions), "corruption"), style="red")
        if verified.corruptions
        else Text("sound")
    )
    for note in verified.notes:
        result.append(printable(f"; {note}"), style="dim")
    return (
        str(verified.key),
        spaced(verified.segments),
        spaced(verified.batches),
        spaced(verified.records),
        decimal(verified.bytes_read),
        spaced(verified.index_entries),
        "–" if verified.keys_compared is None else spaced(verified.keys_compared),
        result,
    )


def _verified_sum(partitions: Sequence[Verified]) -> Text:
    """One line: everything is sound, or how much is corrupt."""
    corruptions = sum(len(verified.corruptions) for verified in partitions)
    broken = sum(bool(verified.corruptions) for verified in partitions)
    if corruptions:
        return Text(
            f"FAULTS: {corruptions}, in {broken} of {counted(len(partitions), 'partition')}",
            style="bold red",
        )
    compared = [
        verified.keys_compared for verified in partitions if verified.keys_compared is not None
    ]
    deleted = sum(verified.keys_deleted for verified in partitions)
    keys = f", {spaced(sum(compared))} keys agree with the originals" if compared else ""
    if deleted:
        keys += f" ({spaced(deleted)} deleted ones among them)"
    seconds = [
        verified.second_opinion for verified in partitions if verified.second_opinion is not None
    ]
    if seconds:
        keys += f", {spaced(sum(second.keys for second in seconds))} by a second opinion"
    return Text(
        f"verified: {counted(sum(verified.segments for verified in partitions), 'segment')}, "
        f"{spaced(sum(verified.batches for verified in partitions))} batches, "
        f"{spaced(sum(verified.records for verified in partitions))} records"
        f"{of_markers(sum(verified.markers for verified in partitions))}{keys}",
        style="green",
    )
