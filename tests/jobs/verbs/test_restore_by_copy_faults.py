"""`tierfold restore --copy` with a fault at every call: the state stays, and orphans at most."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.claims import ORDERS, row_of
from tests.jobs.commands import CLOCK, tierfold
from tests.jobs.restores import (
    DETACHED,
    compacted_once,
    found_at,
    lines_of,
    parts,
    restore,
    sound,
    values,
)
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import copied, files_below, latest_updates
from tests.spread import some_or_all
from tests.storage.call_scripts import Killed, Rule, at, fails, killed
from tests.storage.scripted_catalog import rival_claims
from tests.storage.scripted_store import CORRUPTIONS
from tierfold.jobs.publishing import segment_copies
from tierfold.jobs.verbs import restore_check
from tierfold.storage.catalog.runs_table import RunsTable
from tierfold.storage.tiers.local_store import LocalStore

MAIN_THREAD: Final = threading.get_ident()

tier = copied(compacted_once)


@pytest.fixture(autouse=True)
def _in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread makes all calls, so that each has the same number in every run.

    An answer that was lost is looked for once, without a wait.
    """
    monkeypatch.setattr("tierfold.jobs.pipeline.held_partitions.READ_BACK_AFTER_MS", (0,))
    monkeypatch.setattr(segment_copies, "COPIERS", 1)
    monkeypatch.setattr(restore_check, "CHECKERS", 1)


def state(tier: Path) -> tuple[Any, ...]:
    """What the row says of the log."""
    row = row_of(tier)
    return row.segments, row.retired, row.cleaner_offsets, row.log_start_offset


def calls(tier: Path) -> list[tuple[str, int]]:
    """Every call of a restore that succeeds, except its looks at the catalog."""
    with scripted() as script:
        assert restore(tier, found_at(tier)).code == 0
    kinds = ("list", "read", "read_range", "copy", "claim", "commit")
    return [(call.operation, call.number) for call in script.calls if call.operation in kinds]


COPY_CALLS: Final = [("copy", number) for number in range(1, 11)]
by_copies: Final = pytest.mark.parametrize("copies", some_or_all(COPY_CALLS, 2))


def test_every_object_is_made_by_a_copy_within_the_store(tier: Path) -> None:
    made = calls(tier)
    assert [call for call in made if call[0] == "copy"] == COPY_CALLS
    first, last = made.index(("copy", 1)), made.index(COPY_CALLS[-1])
    assert made.index(("claim", 1)) < first
    commit = made.index(("commit", 1))
    assert commit > last
    assert [kind for kind, _ in made[last + 1 : commit]].count("read_range") >= 10


def orphans_go(tier: Path) -> None:
    """`vacuum` deletes what the run left, once it is old; then nothing is unreferenced."""
    later_ms = time.time_ns() // 1_000_000 + 3 * 86_400_000
    keeps = (CLOCK, str(later_ms), "--grace-period", "3000d")
    assert tierfold("vacuum", tier, *DETACHED, *keeps).code == 0
    named = row_of(tier).named_ids
    left = {path.name[21:43] for path in tier.rglob("*.log")}
    assert left <= named
    assert not [path for path in tier.rglob("*.staged") if "_tierfold" not in str(path)]


@by_copies
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("fault", [fails, killed])
def test_a_restore_that_ends_at_any_copy_leaves_the_state_and_orphans(
    tier: Path, fault: Callable[..., Rule], is_done: bool, copies: list[tuple[str, int]]
) -> None:
    before, to = state(tier), found_at(tier)
    for step in copies:
        with scripted(fault("{} {}".format(*step), is_done=is_done)):
            if fault is killed:
                with pytest.raises(Killed):
                    restore(tier, to)
            else:
                restore(tier, to).ends(3, "failed", "no answer")
        assert state(tier) == before
    sound(tier)
    restored(tier, to)


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("fault", [fails, killed])
def test_a_restore_that_ends_at_its_commit_is_whole_or_nothing(
    tier: Path, fault: Callable[..., Rule], is_done: bool
) -> None:
    before, to = state(tier), found_at(tier)
    with scripted(fault("commit 1", is_done=is_done)):
        if fault is killed:
            with pytest.raises(Killed):
                restore(tier, to)
        else:
            restore(tier, to)
    assert (state(tier) == before) is not is_done
    assert values(tier) == latest_updates(2)
    restored(tier, to)


def restored(tier: Path, to: str) -> None:
    """A later run brings the state back, if it is not there; `vacuum` deletes all orphans."""
    assert restore(tier, to).entry["outcome"] in {"restored", "nothing_to_do"}
    assert len(row_of(tier).segments) == 2
    assert values(tier) == latest_updates(2)
    orphans_go(tier)
    sound(tier)


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("fault", [fails, killed])
def test_a_restore_that_ends_at_any_read_leaves_the_state(
    tier: Path, fault: Callable[..., Rule], every: int
) -> None:
    before, to = state(tier), found_at(tier)
    reads = 0
    while True:
        with scripted(fault(f"read_range {reads + 1}")) as script:
            try:
                ran = restore(tier, to)
            except Killed:
                ran = None
        if len(script.of("read_range")) <= reads:
            break
        assert ran is None or (ran.code, ran.entry["outcome"]) in {(3, "refused"), (3, "failed")}
        assert state(tier) == before
        reads += every
    assert reads > 20
    assert ran is not None
    assert ran.code == 0
    restored(tier, to)


@by_copies
@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_copy_that_differs_from_its_source_is_never_live(
    tier: Path, corruption: str, copies: list[tuple[str, int]]
) -> None:
    before, to = state(tier), found_at(tier)
    target: list[Path] = []

    def corrupted(call: Any) -> None:
        target.append(tier / call.arguments[1])
        content = target[-1].read_bytes()
        CORRUPTIONS[corruption](target[-1])
        if target[-1].exists() and target[-1].read_bytes() == content:  # It was empty before.
            target[-1].write_bytes(b"\0")

    for step in copies:
        with scripted(Rule(step="{} {}".format(*step), after=corrupted)):
            ran = restore(tier, to)
        entry = ran.ends(3, "failed", target[-1].name)
        assert "Nothing was committed" in entry["reason"] or corruption == "gone"
        assert entry["copies"] == []
        assert state(tier) == before
        assert row_of(tier).owner_run == ""
    sound(tier)


def test_a_source_that_is_corrupt_is_not_copied(tier: Path) -> None:
    segment_id = lines_of(tier)[-1]["segments"][1]
    (log,) = tier.rglob(f"*-{segment_id}.log")
    CORRUPTIONS["a bit turned"](log)
    before = files_below(tier)
    with scripted() as script:
        restore(tier, found_at(tier)).ends(3, "refused", segment_id, "Nothing was changed")
    assert not script.of("claim", "copy")
    assert files_below(tier) == before


@pytest.mark.parametrize("step", ["claim 1", "copy 1", "copy 7", "copy 10", "commit 1"])
def test_a_restore_that_was_overtaken_commits_nothing(tier: Path, step: str) -> None:
    before, to = state(tier), found_at(tier)
    with scripted(at(step, rival_claims(str(tier / "_tierfold"), ORDERS))):
        ran = restore(tier, to)
    assert (ran.code, ran.entry["outcome"]) == (4, "lost_race" if step == "claim 1" else "fenced")
    assert ran.entry["copies"] == []
    assert state(tier)[:2] == before[:2]
    sound(tier)


def test_a_source_that_vanishes_meanwhile_is_reported(tier: Path) -> None:
    before, to = state(tier), found_at(tier)
    gone = lines_of(tier)[-1]["segments"][1]

    def vanishes() -> None:
        for path in tier.rglob(f"*-{gone}.*"):
            path.unlink()

    with scripted(at("claim 1", vanishes)):
        restore(tier, to).ends(3, "failed", gone)
    assert state(tier) == before


def test_a_stop_between_two_copies_commits_nothing_and_releases_the_claim(tier: Path) -> None:
    before, to = state(tier), found_at(tier)

    def stops() -> None:
        signal.pthread_kill(MAIN_THREAD, signal.SIGINT)

    with scripted(at("copy 2", stops)) as script:
        ran = restore(tier, to)
    assert ran.code == 130
    assert len(script.of("copy")) == 5
    assert state(tier) == before
    assert row_of(tier).owner_run == ""
    row = RunsTable(str(tier / "_tierfold")).read()[-1]
    assert (row.outcome, row.reason) == (
        "left",
        "stopped by Ctrl-C (SIGINT); nothing was changed",
    )


def test_copies_that_do_not_fit_are_refused_before_anything_is_written(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(
        len(data) for one in lines_of(tier)[-1]["segments"] for data in parts(tier, one).values()
    )
    monkeypatch.setattr(LocalStore, "free_bytes", lambda _: needed - 1)
    before = files_below(tier)
    for more in ((), ("--dry-run",)):
        refused = restore(tier, found_at(tier), *more)
        refused.ends(3, "refused", "the copies take", "without --copy")
    kept = {path: data for path, data in files_below(tier).items() if "runs" not in str(path)}
    assert kept == {path: data for path, data in before.items() if "runs" not in str(path)}
    monkeypatch.setattr(LocalStore, "free_bytes", lambda _: needed)
    assert restore(tier, found_at(tier)).code == 0
