"""A run's sign of life: renewed, never overwritten, deleted at the end. Its failures stop nothing.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.signs import aged, alive, signs_in
from tests.jobs.tiers import made_tier
from tests.storage.call_scripts import Rule, Script, fails
from tests.storage.scripted_store import ScriptedStore
from tierfold.compaction.commits.holders import NO_SIGNS
from tierfold.jobs.context import sign_of_life
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.sign_of_life import SignOfLife
from tierfold.storage.catalog.sign_folder import SignFolder
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


def under_script(tier: Path, *rules: Rule) -> RunContext:
    """A run whose signs are in a store under a script."""
    (tier / CATALOG_FOLDER).mkdir()
    store = ScriptedStore(tier / CATALOG_FOLDER, Script(*rules))
    return replace(run_context(str(tier)), signs=SignFolder(store=store))


def numbers(tier: Path, run: str) -> list[int]:
    """The numbers of the run's signs."""
    names = (path.name.rpartition(".") for path in signs_in(tier))
    return sorted(int(number) for name, _, number in names if name == run)


def test_a_run_at_work_has_one_sign_and_none_at_its_end(tier: Path) -> None:
    context = run_context(str(tier))
    with SignOfLife(context, "compact") as life:
        assert numbers(tier, context.run) == [1]
        seen = life.seen([context.run])
        assert numbers(tier, context.run) == [2]
        own = seen.by_run[context.run]
        assert (own.host, own.process, own.verb) == (socket.gethostname(), os.getpid(), "compact")
        assert seen.own_ms == own.modified_ms
    assert signs_in(tier) == []


def test_it_is_renewed_in_a_thread_until_the_end(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_of_life, "SIGN_EVERY_MS", 20)
    context = run_context(str(tier))
    with SignOfLife(context, "vacuum"):
        deadline_s = time.monotonic() + 20
        while numbers(tier, context.run) < [4] and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert numbers(tier, context.run) >= [4]
    time.sleep(0.1)
    assert signs_in(tier) == []


def test_only_the_runs_that_are_asked_for_are_read(tier: Path) -> None:
    alive(tier, "a", age_s=30)
    alive(tier, "b")
    seen = SignOfLife(run_context(str(tier)), "compact").seen(["a", "c"])
    assert [*seen.by_run] == ["a"]
    age_ms = seen.age_ms("a")
    assert age_ms is not None
    assert 29_000 < age_ms < 60_000


def test_the_newest_of_several_signs_of_a_run_counts(tier: Path) -> None:
    alive(tier, "a", age_s=30)
    aged(alive(tier, "a").rename(signs_in(tier)[0].with_name("a.7")), 500)
    alive(tier, "a", age_s=30)
    age_ms = SignOfLife(run_context(str(tier)), "compact").seen(["a"]).age_ms("a")
    assert age_ms is not None
    assert age_ms < 60_000


def test_a_write_whose_answer_is_lost_blocks_no_later_one_and_is_deleted(tier: Path) -> None:
    context = under_script(tier, fails("open_new 1", is_done=True))
    with SignOfLife(context, "compact") as life:
        assert numbers(tier, context.run) == [1]
        assert life.seen(()).own_ms is not None
        assert numbers(tier, context.run) == [2]
    assert signs_in(tier) == []


def test_a_number_that_is_taken_is_left_out(tier: Path) -> None:
    context = run_context(str(tier))
    alive(tier, context.run)  # Forged, under the first number.
    life = SignOfLife(context, "compact")
    assert life.seen(()) == NO_SIGNS
    assert life.seen(()).own_ms is not None
    life.end()
    assert signs_in(tier) == []


def test_without_a_sign_of_its_own_no_age_is_known(tier: Path) -> None:
    alive(tier, "a")
    life = SignOfLife(under_script_on(tier, fails("open_new")), "compact")
    assert life.seen(["a"]) == NO_SIGNS


def under_script_on(tier: Path, *rules: Rule) -> RunContext:
    store = ScriptedStore(tier / CATALOG_FOLDER, Script(*rules))
    return replace(run_context(str(tier)), signs=SignFolder(store=store))


@pytest.mark.parametrize("call", ["open_new", "list", "delete"])
def test_a_failure_is_logged_once_and_stops_nothing(
    tier: Path, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    context = under_script(tier, fails(call))
    with caplog.at_level(logging.WARNING), SignOfLife(context, "compact") as life:
        life.seen(["a"])
        assert caplog.records == []  # Without a claim it does not matter.
        for _ in range(3):
            life.holds()
            life.seen(["a"])
    (warning,) = [one.getMessage() for one in caplog.records]
    assert "the store: no answer. Look again." in warning
    assert "no data are at risk" in warning


def test_a_store_that_hangs_does_not_hold_the_end_of_a_run(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_of_life, "ENDS_WITHIN_S", 0.05)
    life = SignOfLife(run_context(str(tier)), "compact")
    life.begin()
    with life._lock:  # A write that never ends has it.
        life.end()
    assert len(signs_in(tier)) == 1
