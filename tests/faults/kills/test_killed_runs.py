"""Runs killed at random times by SIGKILL: nothing is lost, and nothing is left half done.

`make soak` does the same with many more kills (tests/faults/kills/killed_run.py).
"""

from __future__ import annotations

from itertools import islice

import pytest

from tests.faults.kills.killed_blows import HAND, Sign, Whom, blows
from tests.faults.kills.killed_run import Course, Kill, killed
from tests.oracle.kafka_lab import KafkaLab

SEED = 7
"""With this seed the JVM dies while Spark starts."""


@pytest.fixture(scope="module")
def courses(
    lab: KafkaLab, tmp_path_factory: pytest.TempPathFactory
) -> list[Course]:
    """Eight kills on one tier; after a run that ends before its blow, another tier goes on."""
    folder = tmp_path_factory.mktemp("killed")
    found: list[Course] = []
    while (left := HAND - len(kills_of(found))) > 0:
        seed = SEED + len(found)
        found.append(killed(folder / str(seed), seed, left, lab, print))
        if found[-1].faults:
            break
    return found


def kills_of(courses: list[Course]) -> list[Kill]:
    return [kill for course in courses for kill in course.kills]


def test_after_any_kill_the_tier_is_whole_and_the_next_run_finishes(
    courses: list[Course],
) -> None:
    assert [fault for course in courses for fault in course.faults] == []
    assert len(kills_of(courses)) == HAND


def test_the_kills_met_the_work(courses: list[Course]) -> None:
    # What a kill hits depends on the machine; if none hit the work, nothing was tested.
    assert any(kill.after.orphans + kill.after.hidden for kill in kills_of(courses))
    assert len({kill.after.clean_until for kill in kills_of(courses)}) > 1


def test_a_hand_of_blows_strikes_everybody_by_every_sign() -> None:
    hand = list(islice(blows(SEED), HAND))
    assert {blow.whom for blow in hand} == set(Whom)
    assert {blow.sign for blow in hand} == set(Sign)
