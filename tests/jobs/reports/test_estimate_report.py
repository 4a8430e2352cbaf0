"""Whether a run is worth it, from the sum of all estimates and what the store charges."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from io import StringIO

import pytest
from rich.console import Console

from tests.compaction.builders import KEY
from tierfold.compaction.estimation.estimate import Estimate, NotEstimated
from tierfold.jobs.pipeline.partition_report import (
    LEFT,
    NOTHING_TO_DO,
    PLANNED,
    PartitionReport,
)
from tierfold.jobs.reports.estimate_report import prices_of, print_estimate, total_entry
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.jobs.reports.screen import Screen

GIB = 2**30
FOUND = Estimate(
    bytes_in=100 * GIB,
    low_bytes=40 * GIB,
    likely_bytes=50 * GIB,
    high_bytes=60 * GIB,
    is_whole=False,
    read_bytes=2**23,
    ranges=128,
    stored_per_byte=0.5,
)
REPORT = PartitionReport(
    key=KEY, outcome=PLANNED, bytes_in=100 * GIB, segments_in=100, segments_out=60, estimate=FOUND
)


def printed(*reports: PartitionReport, scheme: str = "s3") -> str:
    console = Console(width=200, record=True, quiet=False, file=None)
    with console.capture() as text:
        print_estimate(console, reports, prices_of(scheme))
    return text.get()


def of_shares(low: float, high: float, bytes_in: int = 100 * GIB) -> PartitionReport:
    found = replace(
        FOUND,
        bytes_in=bytes_in,
        low_bytes=round(low * bytes_in),
        likely_bytes=round(low * bytes_in),
        high_bytes=round(high * bytes_in),
    )
    return replace(REPORT, estimate=found, bytes_in=bytes_in)


def test_the_price_is_that_of_what_the_store_keeps() -> None:
    total = total_entry([REPORT], prices_of("s3"))
    # Half of 50 GiB, at 0.023 dollars.
    assert total["usd_per_month"] == pytest.approx(25 * 0.023)
    assert (total["saved_share_low"], total["saved_share_high"]) == (0.4, 0.6)
    # 25 600 ranges of 8 MiB and six objects of each segment, at list prices.
    assert total["request_usd"] == pytest.approx((25_600 + 600) * 4e-7 + 360 * 5e-6)
    assert total_entry([REPORT], prices_of("file"))["request_usd"] is None


def test_a_known_storage_class_has_its_own_price() -> None:
    classes = {"": Fraction(1, 4), "STANDARD_IA": Fraction(3, 4)}
    total = total_entry([REPORT], prices_of("s3", shares=classes))
    assert total["usd_per_month"] == pytest.approx(25 * (0.023 / 4 + 0.0125 * 3 / 4))
    assert total["prices_of"].endswith(", by storage class")
    assert total["request_usd"] > total_entry([REPORT], prices_of("s3"))["request_usd"]


def test_the_bytes_of_a_plan_are_those_of_its_estimate() -> None:
    text = StringIO()
    PlanResult(partitions=(REPORT,), tier="t", prices=prices_of("s3")).show(Screen(text, width=200))
    assert "107.4 GB → ~ 53.7 GB" in text.getvalue()


def test_only_what_a_run_would_compact_is_added_up() -> None:
    left, resting = (replace(REPORT, outcome=outcome) for outcome in (LEFT, NOTHING_TO_DO))
    total = total_entry([REPORT, left, resting], prices_of("s3"))
    assert (total["partitions"], total["saved_bytes"]) == (2, 100 * GIB)
    text = printed(REPORT, left, replace(REPORT, estimate=NotEstimated(reason="a reason")))
    assert "256 ranges" in text
    assert "1 partition could not be estimated." in text
    assert printed(resting) == ""


@pytest.mark.parametrize(
    ("report", "scheme", "says"),
    [
        (REPORT, "s3", "A run is worth it: at least 40 % of what it reads would go, and its"),
        (REPORT, "file", "A run is worth it: at least 40 % of what it reads would go."),
        (of_shares(0, 0.009), "s3", "A run is not worth it: at most 0.9 % of what it reads"),
        (of_shares(0.5, 0.6, 2**20), "s3", "A run is not worth it: it saves less than $0.001 a"),
        (of_shares(0.001, 0.3), "s3", "Whether a run is worth it is open: 0.1–30 % of what it"),
    ],
)
def test_one_sentence_says_whether_a_run_is_worth_it(
    report: PartitionReport, scheme: str, says: str
) -> None:
    assert says in printed(report, scheme=scheme)
