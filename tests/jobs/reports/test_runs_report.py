"""What the screens of `runs` show after a night of many partitions."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tests.storage.catalog_contract import A_RUN
from tierfold.jobs.reports.runs_report import NAMED_MAX, PROBLEMS_MAX, RunsResult
from tierfold.jobs.reports.screen import Screen
from tierfold.jobs.reports.tables import OTHERS_MAX, ROWS_MAX
from tierfold.jobs.reports.views import ALL, View
from tierfold.jobs.settings.remarks import Remarks
from tierfold.jobs.verbs.runs import RunPartition, RunSummary
from tierfold.storage.catalog.schema import RunRow

GAP: Final = RunPartition(
    topic="orders", partition=4, outcome="refused", reason="a gap. Mend it.", task_ms=0
)
CORRUPT: Final = replace(GAP, partition=17, outcome="failed", reason="a bad CRC. Mend it.")
NIGHT: Final = RunSummary(
    run="20260102T000000-1",
    command="compact",
    started_at_ms=0,
    finished_at_ms=60_000,
    partitions={"compacted": 4998, "failed": 1, "refused": 1},
    bytes_in=3_000_000,
    bytes_out=1_000_000,
    bytes_read=4_000_000,
    bytes_written=1_000_000,
    cost_usd=None,
    tierfold_version="0.1.0",
    failed=(GAP, CORRUPT),
    slowest=(),
)


def screen(
    runs: Sequence[RunSummary], rows: Sequence[RunRow] = (), view: View = ALL, *, width: int = 100
) -> str:
    out = io.StringIO()
    result = RunsResult(tier="/tier", runs=tuple(runs), rows=tuple(rows), remarks=Remarks())
    result.show(Screen(out, width=width, highlight=False), view)
    return out.getvalue()


def test_a_run_names_what_failed_first_and_each_reason_follows_once() -> None:
    vacuum = replace(NIGHT, run="20260102T010000-1", command="vacuum", failed=(GAP,))
    text = screen([vacuum, NIGHT])
    lines = [line for line in text.splitlines() if "orders-" in line]
    assert lines == [
        "20260102T010000-1: orders-4 refused",
        "20260102T000000-1: orders-17 failed; orders-4 refused",
        "orders-17 failed: a bad CRC. Mend it.",
        "orders-4 refused: a gap. Mend it.",
    ]
    assert ("2.0 MB freed" in text, "2.0 MB saved" in text) == (True, True)
    assert "first `tierfold vacuum`" in text
    assert "first `tierfold vacuum`" not in screen([vacuum])
    assert " more" not in text


def test_what_several_verbs_say_stands_where_the_most_urgent_one_is() -> None:
    first = replace(CORRUPT, partition=1, outcome="refused")
    of_compact = replace(NIGHT, failed=(replace(first, partition=2, outcome="failed"), first))
    of_vacuum = replace(NIGHT, command="vacuum", failed=(replace(first, partition=2),))
    text = screen([of_vacuum, of_compact])
    lines = [line for line in text.splitlines() if line.startswith("orders-")]
    assert [line.partition(":")[0] for line in lines] == ["orders-2 failed", "orders-1 refused"]


def test_what_failed_in_an_older_run_of_the_same_verb_is_named_without_its_reason() -> None:
    text = screen([replace(NIGHT, run="20260102T000000-1", failed=(GAP,)), NIGHT])
    assert "orders-17 failed; orders-4 refused" in text
    assert ("bad CRC" in text, "a gap" in text) == (False, True)


def test_long_reasons_are_apart_and_each_step_has_its_line() -> None:
    reason = f"{'a gap ' * 20}[gap]. 1. Look at offset 2. If there is one. 2. Mend it."
    text = screen([replace(NIGHT, failed=(replace(GAP, reason=reason), CORRUPT))])
    assert "\n\norders-4 refused: a gap" in text
    assert "[gap].\n  1. Look at offset 2. If there is one.\n  2. Mend it.\n" in text
    assert "\norders-17 failed: a bad CRC. Mend it.\n\n" in text


def test_what_a_table_leaves_out_is_counted_right_below_it() -> None:
    done = [replace(A_RUN, partition=number, outcome="compacted") for number in range(60)]
    failed = replace(A_RUN, partition=80, outcome="failed", reason="a long reason " * 20)
    for width in (100, 80):
        text = screen([NIGHT], [*done, failed], width=width)
        assert text.index("─┘") < text.index("… and 50 more") < text.index("orders-80: a long")


def test_of_many_failed_partitions_a_run_names_a_few_and_counts_the_others() -> None:
    count = max(NAMED_MAX, PROBLEMS_MAX) + 2
    failed = [replace(CORRUPT, partition=number, reason="odd.") for number in range(count)]
    run = replace(NIGHT, failed=tuple(failed))
    text = screen([run, replace(run, run="20260101T000000-1")])
    assert f"orders-2, and {count - NAMED_MAX} more failed" in text
    assert f"\n… and {count - PROBLEMS_MAX} more;" in text
    assert text.count(": odd") == PROBLEMS_MAX
    entry, _ = RunsResult(tier="/t", runs=(run, NIGHT), remarks=Remarks()).document(ALL)["runs"]
    named = [f"orders-{number} failed: odd" for number in range(NAMED_MAX)]
    assert entry["reason"] == "; ".join((*named, f"and {count - NAMED_MAX} more"))


def test_a_run_that_grew_or_moved_nothing_says_no_saving() -> None:
    grown = replace(NIGHT, bytes_in=1_000_000, bytes_out=2_000_000)
    idle = replace(NIGHT, bytes_in=0, bytes_out=0)
    assert "saved" not in screen([grown, idle])
    assert "became" not in screen([idle], [A_RUN])


def test_a_run_shows_its_bytes_unless_it_moved_none() -> None:
    changes = [(3_000_000, 1_000_000), (3_000_000, 0), (0, 1000), (0, 0)]
    runs = [replace(NIGHT, bytes_in=before, bytes_out=after) for before, after in changes]
    assert re.findall(r"[\d.]+ \w+ → [\d.]+ \w+", screen(runs)) == [
        "3.0 MB → 1.0 MB",
        "3.0 MB → 0 bytes",
        "0 bytes → 1.0 kB",
    ]


def test_what_is_left_out_is_counted() -> None:
    text = screen([NIGHT, replace(NIGHT, partitions={"compacted": 1})], view=View(only=("failed",)))
    assert "Shown: 1 of 2 (--only failed)." in text
    assert "Shown" not in screen([NIGHT])


def test_what_a_run_cost_is_on_both_screens() -> None:
    run = replace(NIGHT, cost_usd=0.0001)
    assert "│ < $0.001 │" in screen([run])
    rows = [replace(A_RUN, requests={"gets": 1200, "puts": 0, "sent_bytes": 7})]
    text = " ".join(screen([run], rows).split())
    assert "1.0 MB: 2.0 MB saved. Its requests cost less than $0.001 at list prices." in text
    assert "Requests: 1 200 gets." in text


def test_a_failed_partition_shows_no_result_and_an_unread_one_no_offsets() -> None:
    failed = replace(A_RUN, outcome="failed", bytes_out=0)
    nothing: dict[str, Any] = {"first_dirty": 0, "next_offset": 0, "bytes_read": None}
    unread = replace(A_RUN, outcome="refused", task_ms=None, **nothing)
    rows = [line.split("│")[3:7] for line in screen([NIGHT], [failed, unread]).splitlines()]
    assert [[cell.strip() for cell in row] for row in rows if row] == [
        ["10–29", "", "6.0 kB", "1.7 s"],
        ["", "", "", ""],
    ]


def test_the_newest_run_with_tasks_has_the_slowest_partitions() -> None:
    vacuum = replace(NIGHT, run="20260102T010000-1", command="vacuum")
    text = screen([vacuum, replace(NIGHT, slowest=(replace(CORRUPT, task_ms=3000),))])
    assert f"Slowest partitions of {NIGHT.run}: orders-17 3 s." in text


def test_of_one_run_what_failed_is_on_top_and_the_screen_fits() -> None:
    done = [replace(A_RUN, partition=number, outcome="compacted") for number in range(60)]
    refused = replace(A_RUN, partition=70, outcome="refused", reason="a gap. Mend it.")
    failed = replace(A_RUN, partition=80, outcome="failed", reason="a bad CRC. Mend it.")
    text = screen([NIGHT], [*done, refused, failed])
    shown = [line.split()[1] for line in text.splitlines() if line.startswith("│")]
    assert shown == ["orders-80", "orders-70", *(f"orders-{n}" for n in range(OTHERS_MAX))]
    assert len(text.splitlines()) < 30
    # How the run ended comes first.
    assert text.index("partitions:") < text.index("orders-80")
    assert (
        "5 000 partitions: 1 failed, 1 refused, 4 998 compacted. 3.0 MB became 1.0 MB: 2.0 MB"
        " saved. Its requests cost nothing: the tier is a folder."
    ) in " ".join(text.split())
    whole = screen([NIGHT], [*done, refused, failed], View(sort="bytes"))
    assert len([line for line in whole.splitlines() if line.startswith("│")]) == ROWS_MAX
