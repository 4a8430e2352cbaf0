"""Which partitions a result prints, in which order, and what a document and CSV have of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import click
import pytest
from rich.console import Console

from tests.compaction.builders import KEY, a_chain, a_state, retired
from tests.jobs import result_schema
from tests.jobs.reports.screens import CORRUPT, FLEET, SOUND
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.jobs.cli.commands import tierfold as group
from tierfold.jobs.pipeline.partition_report import (
    LEFT,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    PartitionReport,
)
from tierfold.jobs.reports import (
    estimate_report,
    plan_report,
    status_report,
    vacuum_report,
    verify_report,
)
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.jobs.reports.status_report import StatusResult
from tierfold.jobs.reports.tables import OTHERS_MAX, ROWS_MAX, Column
from tierfold.jobs.reports.verify_report import VerifyResult
from tierfold.jobs.reports.views import View, csv_of
from tierfold.jobs.verbs.status import PartitionStatus

GAP: Final = RefusalPart(code="gap", detail="a segment is missing", remedy="Restore it.")
REPORTS: Final = (
    PartitionReport(key=replace(KEY, partition=0), outcome=PLANNED, bytes_in=10, segments_in=2),
    PartitionReport(key=replace(KEY, partition=1), outcome=LEFT, reason="the Budget is spent"),
    PartitionReport(
        key=replace(KEY, partition=2),
        outcome=REFUSED,
        reason="a segment is missing. Restore it.",
        refusals=(GAP,),
    ),
    PartitionReport(key=replace(KEY, partition=3), outcome=PLANNED, bytes_in=900, segments_in=1),
    PartitionReport(key=replace(KEY, partition=4), outcome=NOTHING_TO_DO, reason="not broken"),
)
PLAN: Final = PlanResult(tier="/tier", partitions=REPORTS)
MANY: Final = 2000


def numbers(result: Any, view: View) -> Sequence[int]:
    return [one.key.partition for one in result.shown(view)]


def printed(result: Any, view: View) -> str:
    text = io.StringIO()
    result.show(Console(file=text, width=160, highlight=False), view)
    return text.getvalue()


def rows_of(text: str) -> list[str]:
    return [line.split("│")[1].strip() for line in text.splitlines() if line.startswith("│")]


def a_status(number: int) -> PartitionStatus:
    live = a_chain(10, 10, 10, start_offset=30)
    gone = tuple(map(retired, a_chain(10, 10, 10)))
    row = a_state(live, key=replace(KEY, partition=number), retired=gone)
    return PartitionStatus(key=row.key, row=row, logs=("/a", "/b", "/c"))


@pytest.mark.parametrize(
    ("only", "shown"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("planned",), [0, 3]),
        (("planned", "left"), [0, 1, 3]),
        (("gap",), [2]),  # A code, and no outcome has words of it.
        (("budget",), [1]),
        (("IS MISSING",), [2]),
        (("plan",), []),  # An outcome counts as a whole.
        (("nothing_to_do",), [4]),
        (("ok",), []),  # An outcome is no word of a reason, such as "broken".
    ],
)
def test_only_takes_an_outcome_a_code_or_words_of_the_reason(
    only: tuple[str, ...], shown: list[int]
) -> None:
    assert numbers(PLAN, View(only=only)) == shown


def test_sort_begins_with_the_largest_number_and_ends_with_what_is_unknown() -> None:
    assert numbers(PLAN, View(sort="bytes")) == [3, 0, 1, 2, 4]
    assert numbers(PLAN, View(sort="segments")) == [0, 3, 1, 2, 4]
    assert numbers(PLAN, View(sort="partition")) == [0, 1, 2, 3, 4]
    assert numbers(PLAN, View(sort="bytes", only=("left", "planned"))) == [3, 0, 1]
    ended = replace(REPORTS[1], first_dirty=0, next_offset=5)
    offsets = PlanResult(tier="/tier", partitions=(REPORTS[0], ended))
    assert numbers(offsets, View(sort="offsets")) == [1, 0]


def test_a_table_prints_the_view_and_says_that_totals_are_of_all() -> None:
    text = printed(PLAN, View(only=("planned", "the budget"), sort="bytes"))
    assert rows_of(text) == ["orders-3", "orders-0", "orders-1"]
    assert "5 partitions: 2 planned, 1 left, 1 nothing to do, 1 refused." in text
    assert "Planned: 3 segments → 0, 910 bytes → ~ 0 bytes." in text
    said = "Shown: 3 of 5 (--only planned --only 'the budget'). The totals count all of them."
    assert said in text
    # A refusal is printed where its partition is.
    assert "Restore it." not in text
    assert "Restore it." in printed(PLAN, View(only=("gap",)))
    nothing = printed(PLAN, View(only=("failed",)))
    assert not rows_of(nothing)
    assert "Shown: 0 of 5 (--only failed)." in nothing
    assert "Shown" not in printed(PLAN, View())


def test_without_a_view_what_needs_a_person_comes_first() -> None:
    assert rows_of(printed(PLAN, View()))[0] == "orders-2"
    found = VerifyResult(tier="/tier", partitions=(SOUND, CORRUPT))
    assert rows_of(printed(found, View()))[0] == str(CORRUPT.key)
    assert rows_of(printed(found, View(sort="partition")))[0] == str(SOUND.key)
    assert "1 corruption" not in printed(found, View(only=("sound",)))


def test_wide_prints_every_row() -> None:
    fleet = PlanResult(tier="/tier", partitions=tuple(FLEET[:500]))
    assert len(rows_of(printed(fleet, View(is_wide=True)))) == 500
    assert len(rows_of(printed(fleet, View()))) == OTHERS_MAX
    assert len(rows_of(printed(fleet, View(sort="bytes")))) == ROWS_MAX


def test_a_document_has_the_view_and_the_totals_of_all() -> None:
    document = PLAN.document(View(only=("planned",), sort="bytes"))
    assert [entry["partition"] for entry in document["partitions"]] == [3, 0]
    assert document["only"] == ["planned"]
    assert (document["outcome"], document["totals"]["partitions"]["refused"]) == ("refused", 1)
    assert document["totals"]["bytes_in"] == 910
    assert result_schema.faults(document) == []
    assert "only" not in PLAN.to_dict()


def test_a_document_of_many_partitions_has_no_segments_unless_asked_for() -> None:
    result = StatusResult(tier="/tier", partitions=tuple(map(a_status, range(MANY))))
    brief, whole = result.to_dict(), result.to_dict(segments=True)
    lists = {"segments", "retired", "orphans", "out_of_lineage"}
    for entry, with_lists in zip(brief["partitions"], whole["partitions"], strict=True):
        assert with_lists.keys() - entry.keys() == lists
        assert entry.items() <= with_lists.items()
        assert (entry["live_segments"], entry["live_bytes"], entry["next_offset"]) == (3, 3000, 60)
        assert (entry["retired_segments"], entry["retired_bytes"]) == (3, 3000)
    assert len(json.dumps(brief)) < len(json.dumps(whole)) / 3
    frame = result.to_pandas()
    assert not lists & {*frame.columns}
    assert frame["live_segments"].sum() == 3 * MANY


def test_csv_has_plain_numbers_under_the_names_of_the_document() -> None:
    text = csv_of(PLAN.to_dict()["partitions"], PLAN.columns())
    assert text.count("\r\n") == len(REPORTS) + 1
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [*rows[0]][:4] == ["topic", "partition", "topic_id", "outcome"]
    assert {*rows[0]} <= PLAN.to_dict()["partitions"][0].keys()
    assert [row["bytes_in"] for row in rows] == ["10", "0", "0", "900", "0"]
    assert {row["first_dirty"] for row in rows} == {""}  # null
    assert rows[2]["reason"] == REPORTS[2].reason


def test_csv_quotes_what_has_its_signs() -> None:
    odd = replace(REPORTS[1], reason='a "b", c\nd', notes=("one", "two, three"))
    result = PlanResult(tier="/tier", partitions=(odd,))
    text = csv_of(result.to_dict()["partitions"], result.columns())
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["reason"], row["notes"]) == ('a "b", c\nd', "one; two, three")
    assert '"a ""b"", c\nd"' in text


@pytest.mark.parametrize(
    ("verb", "columns", "fields"),
    [
        (
            "plan",
            plan_report._WITH_ESTIMATES,
            {**plan_report.FIELDS, "saves": estimate_report.FIELDS},
        ),
        ("compact", plan_report._COLUMNS, plan_report.FIELDS),
        ("status", status_report._COLUMNS, status_report.FIELDS),
        ("status", status_report._COLUMNS, status_report.OF_BROKERS),
        ("verify", verify_report._COLUMNS, verify_report.FIELDS),
        ("vacuum", vacuum_report._COLUMNS, vacuum_report.FIELDS),
    ],
)
def test_a_column_can_be_sorted_by_if_it_shows_a_number(
    verb: str, columns: Sequence[Column[Any]], fields: dict[str, tuple[str, ...]]
) -> None:
    """The columns of the table, those of CSV and those of `--sort` are the same."""
    titles = [title for title, *_ in columns]
    assert {*fields} <= {*titles}
    sort = next(one for one in group.commands[verb].params if one.name == "sort")
    assert isinstance(sort.type, click.Choice)
    choices = [choice.replace("-", " ") for choice in sort.type.choices]
    numbered = [title for title in titles[:-1] if title in fields and title != "outcome"]
    assert sorted(choices) == sorted(numbered)
