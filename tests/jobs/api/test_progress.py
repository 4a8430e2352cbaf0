"""`progress` is called with how far a whole run is: the survey first, then what is due."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

import tierfold
from tests.jobs.commands import ALWAYS
from tests.jobs.tiers import copied, key_of, updated_tier

POLICY: Final[Any] = {"settings": dict(one.split("=") for one in ALWAYS[1::2])}
LOCAL: Final[Any] = {"engine": "local", **POLICY}

tier = copied(lambda folder: updated_tier(folder, [key_of("orders"), key_of("payments")], 2))


@pytest.mark.parametrize(
    ("verb", "options"),
    [(tierfold.plan, POLICY), (tierfold.status, POLICY), (tierfold.compact, LOCAL)],
)
def test_progress_begins_with_the_survey(verb: Any, options: Any, tier: Path) -> None:
    seen: list[tierfold.Progress] = []
    objects = len([*tier.glob("kafka-tiered-storage/*/*")])
    verb(tier, progress=seen.append, **options)
    (first, *_) = seen
    survey = [one for one in seen if one.step == "survey"]
    assert (first.step, first.partitions_total) == ("survey", None)
    assert (survey[-1].partitions_done, survey[-1].partitions_total) == (2, 2)
    assert survey[-1].is_ended
    assert survey[-1].objects_listed == objects == 20


def test_progress_counts_the_partitions_and_bytes_of_the_whole_run(tier: Path) -> None:
    seen: list[tierfold.Progress] = []
    result = tierfold.compact(tier, progress=seen.append, **LOCAL)
    work = [one for one in seen if one.step != "survey"]
    assert {(one.partitions_total, one.run_bytes_total) for one in work} == {(2, result.bytes_in)}
    assert (work[0].share, work[-1].share) == (0, 1)
    assert (work[-1].step, work[-1].partitions_done) == ("release", 2)


def test_progress_of_verify_ends_with_all_partitions(tier: Path) -> None:
    seen: list[tierfold.Progress] = []
    tierfold.compact(tier, **LOCAL)
    tierfold.verify(tier, progress=seen.append, **LOCAL)
    assert (seen[-1].step, seen[-1].is_ended) == ("compare", True)
    assert (seen[-1].partitions_done, seen[-1].partitions_total, seen[-1].share) == (2, 2, 1)


def test_progress_counts_no_more_bytes_than_the_run_may_read(tier: Path) -> None:
    seen: list[tierfold.Progress] = []
    tierfold.compact(tier, progress=seen.append, max_bytes=100, **LOCAL)
    assert {one.run_bytes_total for one in seen if one.step != "survey"} == {100}


def test_progress_of_a_restore_counts_its_check_and_its_copies(tier: Path) -> None:
    seen: list[tierfold.Progress] = []
    tierfold.compact(tier, **LOCAL)
    first = tierfold.history(tier, "orders-0").partitions[0].lines[-1]
    to = str(first.entry.state.committed_at_ms)
    result = tierfold.restore(tier, "orders-0", to=to, copy=True, progress=seen.append)
    assert result.bytes_in != result.bytes_out > 0
    ends = [one for one in seen if one.is_ended]
    assert [one.step for one in ends] == ["survey", "check", "copy", "release"]
    size_bytes = result.bytes_out
    assert [one.run_bytes_done for one in ends[1:]] == [size_bytes // 2, size_bytes, size_bytes]
    assert (ends[-1].partitions_done, ends[-1].partitions_total) == (1, 1)
