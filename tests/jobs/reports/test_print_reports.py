"""A fleet's report fits one screen, lists the worst first and ends with the totals."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from tests.compaction.builders import KEY
from tierfold.compaction.cleaning.counts import Counts
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    PartitionReport,
)
from tierfold.jobs.reports.plan_report import plan_result, print_reports
from tierfold.jobs.reports.tables import ROWS_MAX

FLEET = [
    PartitionReport(
        key=replace(KEY, partition=number),
        outcome=NOTHING_TO_DO if number % 2 else PLANNED,
        reason="everything is clean" if number % 2 else "",
    )
    for number in range(20_000)
]
FLEET[17_000] = replace(FLEET[17_000], outcome=REFUSED, reason="gap")


def printed(reports: list[PartitionReport]) -> list[str]:
    told = StringIO()
    print_reports(Console(file=told, width=120), reports, "plan")
    return told.getvalue().splitlines()


def test_a_fleet_fits_a_screen_and_the_worst_comes_first() -> None:
    lines = printed(FLEET)
    rows = [line for line in lines if "orders-" in line]
    assert len(rows) == ROWS_MAX
    assert "orders-17000" in rows[0]
    assert "refused" in rows[0]
    assert len(lines) < ROWS_MAX + 10
    assert "… and 19 960 more; --json lists all." in lines
    assert lines[-1] == (
        "20 000 partitions: 9 999 planned, 10 000 nothing_to_do, 1 refused."
    )


def test_what_was_tried_in_vain_shows_no_result_and_all_of_its_place() -> None:
    place = f"/mnt/{'deep/' * 40}00000000000000000000-H9N_Fa3aRd2QvfUuYOXPBQ.log"
    failed = PartitionReport(
        key=KEY, outcome=FAILED, reason=place, segments_in=3, segments_out=3, bytes_in=9
    )
    lines = printed([failed])
    assert "→" not in "".join(lines)
    why = (line.split("│")[-2].strip() for line in lines if line.count("│") > 2)
    assert place in "".join(why)


def test_markers_among_the_records_that_stay_are_counted() -> None:
    counts = Counts(records_in=12_155, kept=1089, kept_markers=90, superseded=11_066)
    done = PartitionReport(key=KEY, outcome=COMPACTED, counts=counts)
    assert printed([done, done])[-1].startswith(
        "24 310 records: 2 178 kept (180 transaction markers among them), 0 aborted,"
    )


def test_offsets_are_shown_from_the_first_to_the_last() -> None:
    planned = PartitionReport(key=KEY, outcome=PLANNED, first_dirty=5, next_offset=12_155)
    assert " 5–12154 " in "".join(printed([planned]))
    # Where only a horizon has passed, the round lies below what is dirty.
    assert " ≤ 12154 " in "".join(printed([replace(planned, first_dirty=20_000)]))


def test_no_reason_drives_the_terminal() -> None:
    told = PartitionReport(
        key=KEY, outcome=REFUSED, reason="\x1b[2J[hidden] [/b]", notes=("a \x9b header",)
    )
    (row,) = [line for line in printed([told]) if "orders-3" in line]
    assert r"\x1b[2J[hidden] [/b]; a \x9b header" in row
    assert row.isprintable()


def test_only_a_plan_says_that_records_without_a_key_are_not_counted_yet() -> None:
    planned = replace(FLEET[0], counts=Counts(records_in=1, without_key=1))
    for outcome, is_known in ((PLANNED, False), (COMPACTED, True)):
        report = replace(planned, outcome=outcome)
        told = [line for line in printed([report, report]) if "unknown until scanned" in line]
        assert len(told) == (not is_known)
        (entry,) = plan_result([report], "plan").document()["partitions"]
        assert (entry["counts"] is not None) == is_known


def test_the_document_has_them_all() -> None:
    found = plan_result(FLEET, "plan").document()["partitions"]
    assert len(found) == 20_000
