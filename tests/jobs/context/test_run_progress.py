"""A run reports partitions, bytes and the time that is left, whatever step it is in."""

from __future__ import annotations

import time

import pytest

from tierfold.jobs.context import run_progress
from tierfold.jobs.context.byte_progress import Progress, Step
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.storage.tiers.listed_count import LISTED


@pytest.fixture
def seen() -> list[Progress]:
    return []


@pytest.fixture
def progress(seen: list[Progress]) -> RunProgress:
    return RunProgress(seen.append)


def test_a_survey_knows_its_total_once_the_tier_is_listed(
    progress: RunProgress, seen: list[Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_progress, "LOOK_EVERY_S", 0)
    with progress.survey():
        progress.found(2)
        assert list(progress.inspected("ab")) == ["a", "b"]
    counts = [(one.partitions_done, one.partitions_total) for one in seen]
    assert counts == [(0, None), (0, 2), (1, 2), (2, 2), (2, 2)]
    assert [one.is_ended for one in seen] == [False] * 4 + [True]
    assert {(one.step, one.run_bytes_total) for one in seen} == {("survey", None)}


def test_a_survey_says_how_much_is_listed_while_it_is_listed(
    progress: RunProgress, seen: list[Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_progress, "LOOK_EVERY_S", 0)

    def listed() -> str:
        for _ in range(3):
            LISTED.add(500)
        return "all"

    LISTED.add(7)  # By another listing, before.
    with progress.survey():
        progress.found(2)
        assert progress.listing(listed) == "all"
    counts = {one.objects_listed for one in seen}
    assert counts == {0, 500, 1000, 1500}
    assert (seen[-1].step, seen[-1].objects_listed) == ("survey", 1500)
    progress.begin(1, 10)
    with Step(progress, "scan", 10):
        assert seen[-1].objects_listed == 0


def test_a_listing_that_fails_raises_its_own_error(progress: RunProgress) -> None:
    def fails() -> str:
        raise TimeoutError("the store is gone")

    with progress.survey(), pytest.raises(TimeoutError, match="the store is gone"):
        progress.listing(fails)


def test_a_survey_of_many_partitions_does_not_report_each(
    progress: RunProgress, seen: list[Progress]
) -> None:
    with progress.survey():
        progress.found(10_000)
        assert len(list(progress.inspected(range(10_000)))) == 10_000
    assert len(seen) < 100


def test_a_wave_counts_each_byte_once_however_often_it_is_read(
    progress: RunProgress, seen: list[Progress]
) -> None:
    progress.begin(3, 300)
    with progress.wave(200, passes=2):
        with Step(progress, "scan", 200) as scan:
            scan.advance(200)
        with Step(progress, "rewrite", 100) as rewrite:
            rewrite.advance(100)
    progress.ended(2)
    with progress.wave(100, passes=2), Step(progress, "scan", 100) as again:
        again.advance(100)
    assert [one.run_bytes_done for one in seen] == [0, 100, 100, 100, 150, 150, 200, 250, 250]
    assert [one.partitions_done for one in seen] == [0] * 6 + [2] * 3
    assert [one.bytes_done for one in seen][:3] == [0, 200, 200]


def test_no_more_than_all_bytes_are_done(progress: RunProgress, seen: list[Progress]) -> None:
    progress.begin(1, 100)
    # The next chunk of a partition reads what the one before it wrote.
    for _ in range(2):
        with progress.wave(80), Step(progress, "scan", 80) as scan:
            scan.advance(90)
    assert seen[1].run_bytes_done == 80
    assert seen[-1].run_bytes_done == 100


def test_the_rest_takes_as_long_as_its_share_of_the_bytes(
    progress: RunProgress, seen: list[Progress]
) -> None:
    time.sleep(0.2)  # The survey says nothing about the work.
    progress.begin(9, 100)
    with progress.wave(100), Step(progress, "scan", 100) as scan:
        time.sleep(0.1)
        scan.advance(25)
    assert (seen[0].share, seen[0].remaining_s) == (0, None)
    assert seen[1].elapsed_s >= 0.3
    assert seen[1].remaining_s is not None
    assert 0.3 <= seen[1].remaining_s < 3 * (seen[1].elapsed_s - 0.19)


def test_partitions_tell_the_time_if_there_are_no_bytes(
    progress: RunProgress, seen: list[Progress]
) -> None:
    progress.begin(4, 0)
    progress.ended(1)
    with Step(progress, "delete", 0):
        pass
    assert seen[-1].share == 0.25
    assert seen[-1].remaining_s is not None
