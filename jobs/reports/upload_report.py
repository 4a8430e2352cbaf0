"""The result of `upload`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.pipeline.partition_report import PLANNED
from tierfold.jobs.reports.holders_report import shown_reason
from tierfold.jobs.reports.plan_report import print_parts_verified
from tierfold.jobs.reports.refusals_report import print_refusals
from tierfold.jobs.reports.result import Result, concluded, fields
from tierfold.jobs.reports.tables import (
    DRY_RUN,
    NO_PARTITIONS,
    URGENCY,
    Column,
    by_urgency,
    outcomes_line,
    print_rows,
    sentences,
    styled,
)
from tierfold.jobs.reports.views import ALL, Columns, View
from tierfold.jobs.verbs.upload_survey import PartitionUpload


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UploadResult(Result[PartitionUpload]):
    """What `upload` wrote into the tier, or would."""

    verb = "upload"
    log_dir: str
    """The log directory, as it was given."""

    def entry(self, partition: PartitionUpload) -> dict[str, Any]:
        """See `Result`."""
        report = partition.report
        entry = {
            **concluded(report, report.notes, report.refusals),
            **fields(report, "epoch", "next_offset", "bytes_written"),
            "parts_verified": asdict(report.parts_verified),
            "rolled_segments": report.segments_in,
            "rolled_bytes": report.bytes_in,
            "uploaded_segments": report.segments_out,
            "uploaded_bytes": report.bytes_out,
        }
        if partition.facts is not None:
            clean, cleaned = partition.facts.cleaner_offset, {*partition.facts.cleaned}
            entry["cleaner_offset"] = None if clean is None else clean.offset
            entry["cleaner_leader_epoch"] = None if clean is None else clean.epoch
            entry["local_segments"] = [
                {
                    **fields(one.segment, "start_offset", "end_offset", "size_bytes"),
                    "is_upload": one.reason.is_upload,
                    "decision": one.reason.value,
                    "is_cleaned": one.segment in cleaned,
                }
                for one in partition.facts.plan.decisions
            ]
        return entry

    def stored_bytes_added(self, partition: PartitionUpload) -> int:
        """See `Result`."""
        return partition.report.bytes_written

    def details(self) -> dict[str, Any]:
        """See `Result`."""
        return {"log_dir": self.log_dir}

    def columns(self) -> Columns:
        """See `Result`."""
        return FIELDS

    def print_tables(self, console: Console, view: View = ALL) -> None:
        """See `Result`: a dry run also says why segments wait."""
        if not self.partitions:
            console.print(NO_PARTITIONS)
            return
        rows = self.shown(view)
        if not view.sort:
            rows.sort(key=by_urgency)
        title = f"run {self.run_id}" if self.run_id else DRY_RUN
        print_rows(console, title, _COLUMNS, rows, rows_max=view.rows_max)
        print_refusals(console, rows, of_all=len(self.partitions))
        _print_reasons(console, rows)
        verified = (one.report.parts_verified for one in rows)
        print_parts_verified(console, sum(verified, VerifiedParts()))
        console.print(outcomes_line([one.outcome for one in self.partitions], URGENCY))


def _print_reasons(console: Console, rows: Sequence[PartitionUpload]) -> None:
    """Why segments are uploaded or not, by number."""
    reasons = Counter(
        decision.reason
        for one in rows
        if one.facts is not None and one.outcome == PLANNED
        for decision in one.facts.plan.decisions
    )
    for reason, segments in reasons.most_common():
        verb = "to upload" if reason.is_upload else "not uploaded"
        console.print(Text(f"{counted(segments, 'segment')} {verb}: {reason.value}"))
    cleaned = sum(len(one.facts.cleaned) for one in rows if one.facts is not None)
    if cleaned:
        console.print(f"{counted(cleaned, 'local segment')} below the tier's cleaner offset")


_COLUMNS: Final[Sequence[Column[PartitionUpload]]] = (
    ("partition", "left", lambda one: str(one.key)),
    ("outcome", "left", lambda one: styled(one.outcome)),
    ("rolled", "right", lambda one: spaced(one.report.segments_in)),
    ("uploaded", "right", lambda one: spaced(one.report.segments_out)),
    ("bytes", "right", lambda one: decimal(one.report.bytes_out)),
    ("why", "left", lambda one: sentences(shown_reason(one.report), one.report.notes)),
)

FIELDS: Final[Columns] = {
    "partition": ("topic", "partition"),
    "outcome": ("outcome",),
    "rolled": ("rolled_segments",),
    "uploaded": ("uploaded_segments",),
    "bytes": ("uploaded_bytes",),
    "why": ("reason", "notes"),
}
"""The fields of an entry that the columns show."""
