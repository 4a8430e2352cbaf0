"""The results of `restore` and `forget`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from tierfold.compaction.commits.adoption import Adoption
from tierfold.compaction.commits.leave_alone import LeftAlone
from tierfold.compaction.model.segments import Segment
from tierfold.compaction.model.wording import counted, spaced
from tierfold.jobs.context.timestamps import timestamp_text
from tierfold.jobs.pipeline.partition_report import FORGOTTEN, PLANNED, RESTORED, PartitionReport
from tierfold.jobs.reports.broker_report import broker_entry
from tierfold.jobs.reports.plan_report import print_parts_verified
from tierfold.jobs.reports.result import Result, fields, named_segment
from tierfold.jobs.reports.tables import clean_below, exact_bytes, in_words, print_omitted
from tierfold.jobs.reports.views import ALL, View
from tierfold.jobs.verbs.forget import Forgot
from tierfold.jobs.verbs.restore import Restored

SEGMENTS_SHOWN: Final = 10
"""Maximum segments in each list; the JSON document has all."""


class RestoreResult(Result[Restored]):
    """Which segments of one partition came back and left, or would."""

    __slots__ = ()

    verb = "restore"

    def stored_bytes_added(self, partition: Restored) -> int:
        """See `Result`: the copies."""
        return partition.report.bytes_written

    def entry(self, partition: Restored) -> dict[str, Any]:
        """See `Result`."""
        return _restored_entry(partition)

    def print_tables(self, console: Console, _view: View = ALL) -> None:
        """See `Result`."""
        for found in self.partitions:
            _print_restored(console, found)


def _restored_entry(found: Restored) -> dict[str, Any]:
    entry, target, plan = found.report.as_json(), found.target, found.restore_plan
    if target is not None:
        entry["to"] = {
            "committed_at": timestamp_text(target.state.committed_at_ms),
            "committed_at_ms": target.state.committed_at_ms,
            **fields(target, "run", "event"),
            "epoch": target.state.epoch,
        }
    if plan is not None:
        entry["cleaner_offset"] = plan.cleaner_offset
        entry["log_start_offset"] = plan.state.log_start_offset
        for name, segments in (("back", plan.back), ("leaving", plan.leaving)):
            entry[name] = [named_segment(segment, "written_by_run") for segment in segments]
        entry["is_copy"] = found.is_copy
        entry["copies"] = [
            {**named_segment(copy, "written_by_run"), "copy_of": source.segment_id}
            for source, copy in zip(plan.back, found.copies, strict=False)
        ]
    if found.is_published:
        entry |= fields(found.report, "events_sent", "publishing")
        entry["read_again"] = [
            {"start_offset": one.first, "end_offset": one.last} for one in found.read_again
        ]
    if found.brokers is not None:
        entry["brokers"] = broker_entry(found.brokers, found.beside)
    return entry


def _print_restored(console: Console, found: Restored) -> None:
    report, plan, target = found.report, found.restore_plan, found.target
    console.print(Text(f"{report.key}: {in_words(report.outcome)}", style="bold"))
    if target is not None:
        run = f" by run {target.run}" if target.run else ""
        at = timestamp_text(target.state.committed_at_ms)
        console.print(f"to the state of {at}, {target.event}{run}")
    _print_sentences(console, report)
    if plan is None or report.outcome not in {PLANNED, RESTORED}:
        return
    would = report.outcome == PLANNED
    back = "would be live again" if would else "live again"
    if found.is_copy:
        _print_segments(console, f"{back}, as copies under new ids", found.copies or plan.back)
    else:
        _print_segments(console, back, plan.back)
    print_parts_verified(console, report.parts_verified)
    _print_segments(console, "would be retired" if would else "retired", plan.leaving)
    if found.brokers is not None:
        served = found.brokers.view.referenced_ids
        of_back = sum(segment.segment_id in served for segment in plan.back)
        of_leaving = sum(segment.segment_id in served for segment in plan.leaving)
        console.print(f"Brokers serve {of_back} of the former, and {of_leaving} of the latter.")
    if found.read_again:
        console.print(Text(_read_again(found, would=would)))
    stay = len(plan.segments) - len(plan.back)
    boundary = f"clean below: {clean_below(plan.cleaner_offset)}"
    start = f"the log starts at {plan.state.log_start_offset}"
    console.print(f"{counted(stay, 'segment')} unchanged; {boundary}; {start}")
    if would:
        compares = ", and compares each copy with its source" if found.is_copy else ""
        console.print(
            "Nothing is changed. The real run reads and checks the segments that come back"
            f"{compares}."
        )


def _read_again(found: Restored, *, would: bool) -> str:
    """What consumers see of a restore that is published."""
    ranges = ", ".join(map(str, found.read_again[:SEGMENTS_SHOWN]))
    more = len(found.read_again) - SEGMENTS_SHOWN
    and_more = f" and {spaced(more)} more ranges" if more > 0 else ""
    read = "would read" if would else "read"
    return (
        f"Consumers {read} offsets {ranges}{and_more} again as they were: superseded values, and"
        " deleted keys up to the tombstones that hide them. Consumers that have read past these"
        " offsets see nothing of it."
    )


def _print_sentences(console: Console, report: PartitionReport) -> None:
    for sentence in filter(None, (report.reason, *report.notes)):
        console.print(Text(sentence))


def _print_segments(console: Console, what: str, segments: Sequence[Segment]) -> None:
    size_bytes = sum(segment.size_bytes for segment in segments)
    console.print(f"{counted(len(segments), 'segment')} {what}, {exact_bytes(size_bytes)}")
    for segment in segments[:SEGMENTS_SHOWN]:
        console.print(
            f"  {segment.segment_id}  offsets {segment.start_offset}–{segment.end_offset}"
            f"  {decimal(segment.size_bytes)}  {_origin(segment)}"
        )
    print_omitted(console, len(segments) - SEGMENTS_SHOWN, indent="  ")


def _origin(segment: Segment) -> str:
    if segment.copy_of:
        return f"copy of {segment.copy_of}"
    return f"written by {segment.written_by_run or 'a broker'}"


class ForgetResult(Result[Forgot]):
    """Which segments of one partition the catalog forgot, or would."""

    __slots__ = ()

    verb = "forget"

    def entry(self, partition: Forgot) -> dict[str, Any]:
        """See `Result`."""
        return _forgot_entry(partition)

    def print_tables(self, console: Console, _view: View = ALL) -> None:
        """See `Result`."""
        for found in self.partitions:
            _print_forgot(console, found)


def _forgot_entry(found: Forgot) -> dict[str, Any]:
    entry, loss = found.report.as_json(), found.loss
    if loss is not None:
        entry["forgotten"] = list(map(named_segment, loss.forgotten))
        entry["taken"] = list(map(named_segment, loss.taken))
        entry["set_apart"] = [
            {
                "id": segment.segment_id,
                "start_offset": segment.start_offset,
                "end_offset": segment.end_offset,
                "size_bytes": segment.listed.size_bytes,
            }
            for segment in loss.set_apart
        ]
        entry["vanishing"] = [fields(one, "start_offset", "end_offset") for one in loss.vanishing]
    if (leaving := found.left_alone) is not None:
        entry["left_alone"] = [
            fields(one, "start_offset", "size_bytes") | {"id": one.segment_id}
            for one in leaving.segments
        ]
    if (taken := found.adoption) is not None:
        entry["adopted"] = {
            "live": list(map(named_segment, taken.live)),
            "back": list(map(named_segment, taken.back)),
            "retired": list(map(named_segment, taken.retired)),
            "log_start_offset": taken.log_start_offset,
        }
        if taken.back:
            entry |= fields(found.report, "events_sent", "publishing")
    return entry


def _print_forgot(console: Console, found: Forgot) -> None:
    report, loss = found.report, found.loss
    is_noted = found.left_alone is not None and report.outcome == FORGOTTEN
    outcome = "noted in the catalog" if is_noted else in_words(report.outcome)
    console.print(Text(f"{report.key}: {outcome}", style="bold"))
    _print_sentences(console, report)
    if found.adoption is not None and report.outcome in {PLANNED, FORGOTTEN}:
        _print_adoption(console, found, found.adoption)
    if found.left_alone is not None and report.outcome in {PLANNED, FORGOTTEN}:
        _print_left_alone(console, found.left_alone, would=report.outcome == PLANNED)
    if loss is None or report.outcome not in {PLANNED, FORGOTTEN}:
        return
    console.print(f"{counted(len(loss.forgotten), 'segment')} live by the catalog's row")
    taken = [f"{one.segment_id}  offsets {one.start_offset}–{one.end_offset}" for one in loss.taken]
    _print_list(console, "that the next run takes as the log", taken)
    apart = [
        f"{one.segment_id}  offsets {one.start_offset}–{one.end_offset}" for one in loss.set_apart
    ]
    _print_list(console, "set apart: kept in the tier, not read", apart)
    if loss.vanishing:
        ranges = ", ".join(map(str, loss.vanishing[:SEGMENTS_SHOWN]))
        more = len(loss.vanishing) - SEGMENTS_SHOWN
        and_more = f" and {spaced(more)} more ranges" if more > 0 else ""
        console.print(Text(f"Offsets that vanish: {ranges}{and_more}", style="yellow"))
    else:
        console.print("No offset vanishes.")
    if loss.set_apart:
        console.print("An offset that both have is read from the log, not from what is set apart.")
    if report.outcome == PLANNED:
        console.print("Nothing is changed. Without --dry-run, this cannot be undone.")


def _print_adoption(console: Console, found: Forgot, taken: Adoption) -> None:
    live = () if found.state is None else found.state.segments
    console.print(f"{counted(len(live), 'segment')} live by the catalog's row")
    would = found.report.outcome == PLANNED
    _print_segments(console, "would be live" if would else "live", taken.live)
    if taken.back:
        copied = "would come back as copies" if would else "came back as copies"
        _print_segments(console, f"of these {copied}, which passes had replaced", taken.back)
    back = "would be retired, and never read" if would else "retired, and never read"
    _print_segments(console, back, taken.retired)
    console.print(f"The log starts at {taken.log_start_offset}.")
    if would:
        console.print("Nothing is changed. Without --dry-run, this cannot be undone.")


def _print_left_alone(console: Console, leaving: LeftAlone, *, would: bool) -> None:
    lines = [
        f"{one.segment_id}  from offset {one.start_offset}  {decimal(one.size_bytes)}"
        for one in leaving.segments
    ]
    what = "would be left alone" if would else "left alone"
    _print_list(console, f"{what}: never read, never deleted", lines)
    if would:
        console.print("Nothing is changed. Without --dry-run, this cannot be undone.")


def _print_list(console: Console, what: str, lines: Sequence[str]) -> None:
    console.print(f"{counted(len(lines), 'segment')} {what}")
    for line in lines[:SEGMENTS_SHOWN]:
        console.print(f"  {line}")
    print_omitted(console, len(lines) - SEGMENTS_SHOWN, indent="  ")
