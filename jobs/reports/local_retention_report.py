"""The result of `local-retention`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.pipeline.partition_report import OK, REFUSED
from tierfold.jobs.reports.refusals_report import print_refusals
from tierfold.jobs.reports.result import Result, concluded, fields
from tierfold.jobs.reports.tables import (
    NO_PARTITIONS,
    Column,
    exact_bytes,
    outcomes_line,
    print_rows,
    rows_shown,
    sentences,
)
from tierfold.jobs.reports.views import ALL, Columns, View
from tierfold.jobs.verbs.local_retention import PartitionLocalRetention, total_bytes

_TITLE: Final = "local retention: nothing is deleted"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LocalRetentionResult(Result[PartitionLocalRetention]):
    """Which segments of a broker's log directory may go."""

    verb = "local-retention"
    log_dir: str
    """The log directory, as it was given."""

    def entry(self, partition: PartitionLocalRetention) -> dict[str, Any]:
        """See `Result`."""
        copy = partition.copy
        return {
            **concluded(partition, (), partition.refusals),
            "tier_next_offset": None if copy is None else copy.next_offset,
            "cleaner_offset": None if copy is None else copy.cleaner_offset,
            "rolled_segments": len(partition.rolled),
            "rolled_bytes": total_bytes(partition.rolled),
            "deletable_segments": len(partition.deletable),
            "deletable_bytes": total_bytes(partition.deletable),
            "local_segments": [
                {
                    **fields(one.segment, "start_offset", "end_offset", "size_bytes"),
                    "is_deletable": one.reason.may_go,
                    "decision": one.reason.value,
                }
                for one in partition.decisions
            ],
        }

    def details(self) -> dict[str, Any]:
        """See `Result`."""
        return {"log_dir": self.log_dir}

    def columns(self) -> Columns:
        """See `Result`."""
        return FIELDS

    def print_tables(self, console: Console, view: View = ALL) -> None:
        """See `Result`."""
        if not self.partitions:
            console.print(NO_PARTITIONS)
            return
        rows, rows_max = self.shown(view), view.rows_max
        if not view.sort:
            rows.sort(key=lambda one: not one.refusal)
            rows_max = rows_shown([one.outcome for one in rows], rows_max)
        print_rows(console, _TITLE, _COLUMNS, rows, rows_max=rows_max)
        print_refusals(console, rows, of_all=len(self.partitions))
        _print_totals(console, self.partitions)


def _print_totals(console: Console, partitions: Sequence[PartitionLocalRetention]) -> None:
    """How much may go of all partitions, and why the rest stays, by number."""
    outcomes = outcomes_line([one.outcome for one in partitions], (OK, REFUSED))
    may_go = [segment for one in partitions for segment in one.deletable]
    size = exact_bytes(total_bytes(may_go))
    console.print(f"{outcomes} {counted(len(may_go), 'segment')} may go: {size}.")
    reasons = Counter(
        decision.reason
        for one in partitions
        for decision in one.decisions
        if not decision.reason.may_go
    )
    for reason, segments in reasons.most_common():
        stay = "stays" if segments == 1 else "stay"
        console.print(Text(f"{counted(segments, 'segment')} {stay}: {reason}"))


def _why(one: PartitionLocalRetention) -> Text:
    if one.refusal is not None:
        return Text("refused, see below", style="red")
    return sentences(one.reason, ())


_COLUMNS: Final[Sequence[Column[PartitionLocalRetention]]] = (
    ("partition", "left", lambda one: str(one.key)),
    ("rolled", "right", lambda one: spaced(len(one.rolled))),
    ("bytes", "right", lambda one: decimal(total_bytes(one.rolled))),
    ("may go", "right", lambda one: spaced(len(one.deletable))),
    ("frees", "right", lambda one: decimal(total_bytes(one.deletable))),
    ("why", "left", _why),
)

FIELDS: Final[Columns] = {
    "partition": ("topic", "partition"),
    "rolled": ("rolled_segments",),
    "bytes": ("rolled_bytes",),
    "may go": ("deletable_segments",),
    "frees": ("deletable_bytes",),
    "why": ("reason",),
}
"""The fields of an entry that the columns show."""
