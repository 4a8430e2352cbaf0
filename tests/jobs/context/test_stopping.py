"""Real Ctrl-C and SIGTERM, at points that a test chooses, stop a run cleanly."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.jobs.claims import row_of
from tests.jobs.commands import CLOCK, Ran, tierfold, told
from tests.jobs.elections import histories
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import copied, files_below, key_of, put_updates, updated_tier
from tests.jobs.vacuum_tiers import ORDERS, THEN_MS, compact, compacted, ids_in, live_ids, vacuum
from tests.storage.call_scripts import at
from tierfold.jobs.context.byte_progress import ByteProgress, unheard
from tierfold.jobs.context.stopping import (
    Stopped,
    deferred,
    finishing,
    is_stopping,
    stop_silently,
    stoppable,
)
from tierfold.jobs.engines import engine_choice
from tierfold.jobs.spark.progress import SparkProgress
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.runs_table import RunsTable

PAYMENTS = key_of("payments")
LATER = (CLOCK, str(THEN_MS + 3_600_000))
MAIN_THREAD = threading.get_ident()

ON_TIER = ("plan", "compact", "status", "verify", "vacuum")
ON_PARTITION = ("history", "restore", "forget")


def ctrl_c() -> None:
    """Send SIGINT, and wait until the main thread, where Python handles signals, has handled it."""
    signal.pthread_kill(MAIN_THREAD, signal.SIGINT)
    while threading.get_ident() != MAIN_THREAD and not is_stopping():
        time.sleep(0.05)
        # If the main thread begins to wait for a lock just then, it needs another signal.
        if not is_stopping():
            signal.pthread_kill(MAIN_THREAD, signal.SIGINT)


@pytest.fixture(autouse=True)
def pytests_own_handlers() -> Iterator[None]:
    """Restore the handlers: a stopped verb leaves its own, because its process should end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


tier = copied(lambda folder: compacted(folder, ORDERS))


def assert_stopped(ran: Ran, *words: str) -> None:
    """Assert that Ctrl-C ended the verb, and that stderr has these words."""
    assert ran.code == 130, ran.stderr
    assert not told(ran.stderr, "stopped by Ctrl-C (SIGINT)", *words)


def arguments_of(verb: str, tier: Path) -> tuple[str, ...]:
    if verb in ON_PARTITION:
        to = ("--to", "0") if verb == "restore" else ()
        return (verb, str(tier), "orders-0", *to)
    return (verb, str(tier)) if verb in ON_TIER else (verb, "orders")


@pytest.mark.parametrize("verb", [*ON_TIER, *ON_PARTITION, "config"])
def test_a_verb_that_reads_its_settings_ends_at_once_with_one_sentence(
    verb: str, tier: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.toml"
    os.mkfifo(settings)
    before = files_below(tier)

    def once_it_reads() -> None:
        with settings.open("wb"):
            signal.pthread_kill(MAIN_THREAD, signal.SIGINT)

    sender = threading.Thread(target=once_it_reads, daemon=True)
    sender.start()
    ran = tierfold(*arguments_of(verb, tier), "--config", str(settings))
    assert (ran.code, ran.stdout) == (130, ""), ran.stderr
    assert ran.stderr.startswith("tierfold: stopped by Ctrl-C (SIGINT): ")
    assert len(ran.stderr.splitlines()) == 1
    assert files_below(tier) == before


@pytest.fixture
def uncompacted(tmp_path: Path) -> Path:
    return updated_tier(tmp_path / "new", [ORDERS], 4)


@pytest.mark.parametrize(
    ("step", "is_done", "reason"),
    [
        ("commit 1", False, "the rest is left for the next run: stopped by Ctrl-C (SIGINT)"),
        ("claim", True, "left for the next run: stopped by Ctrl-C (SIGINT)"),
    ],
    ids=["during a commit", "after the claim"],
)
def test_compact_keeps_what_it_commits_and_leaves_the_rest(
    uncompacted: Path, step: str, is_done: bool, reason: str
) -> None:
    with scripted(at(step, ctrl_c, is_done=is_done)):
        ran = compact(uncompacted, "--set", "chunk.bytes=1")
    assert_stopped(ran, "run again")
    report, found = ran.partitions["orders", 0], row_of(uncompacted)
    assert (report["outcome"], report["reason"]) == ("left" if is_done else "compacted", reason)
    assert (report["epoch"], found.epoch, found.owner_run) == (1, 1, "")
    if is_done:
        assert len(found.segments) == 4
    else:
        assert 0 < (found.cleaner_offset or 0) < found.next_offset
    assert compact(uncompacted).outcomes == {("orders", 0): "compacted"}


@pytest.mark.parametrize("step", ["claim 1", "commit 1", "look 2", "delete 1", "delete 8"])
def test_vacuum_deletes_no_more_and_releases_its_claim(tier: Path, step: str) -> None:
    with scripted(at(step, ctrl_c)) as script:
        ran = vacuum(tier)
    assert_stopped(ran)
    reason = ran.partitions["orders", 0]["reason"]
    assert not told(reason, "the run was stopped", "the next run continues")
    # Only the segment whose deletion has begun is deleted, all five objects.
    assert len(script.of("delete")) in {"delete 1": (5,), "delete 8": (10,)}.get(step, (0,))
    assert not script.of("clean_up")
    assert row_of(tier).owner_run == ""
    assert vacuum(tier).code == 0
    assert ids_in(tier) == live_ids(tier)


def test_a_verb_with_one_commit_finishes_and_reports_it(tier: Path, tmp_path: Path) -> None:
    lines = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    to = lines[-1]["committed_at"]
    with scripted(at("claim", ctrl_c, is_done=True)):
        restored = tierfold("restore", tier, "orders-0", "--to", to, "--json", *LATER)
    truncated, *_ = histories(tmp_path / "truncated")
    with scripted(at("claim", ctrl_c, is_done=True)):
        forgot = tierfold("forget", truncated, "orders-0", "--json")
    assert restored.outcomes == {("orders", 0): "restored"}
    assert forgot.outcomes == {("orders", 0): "forgotten"}
    for ran, folder in ((restored, tier), (forgot, truncated)):
        assert_stopped(ran)
        rows = Catalog(str(folder / "_tierfold")).read().values()
        assert [row.owner_run for row in rows] == [""]


def test_a_restore_that_is_stopped_in_its_check_leaves_a_row(tier: Path) -> None:
    lines = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]

    def once_is_enough() -> None:
        # The main thread waits for this read, so it handles the signal in the check at the latest.
        signal.pthread_kill(MAIN_THREAD, signal.SIGINT)

    with scripted(at("read_range 1", once_is_enough)):
        ran = tierfold("restore", tier, "orders-0", "--to", lines[-1]["committed_at"], *LATER)
    assert ran.code == 130, ran.stderr
    row = RunsTable(str(tier / "_tierfold")).read()[-1]
    assert (row.command, row.outcome) == ("restore", "left")
    assert row.reason == "stopped by Ctrl-C (SIGINT); nothing was changed"


def test_a_run_that_is_stopped_before_its_first_claim_leaves_rows(
    tier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_updates(tier, ORDERS, 3)
    put_updates(tier, PAYMENTS, 0)
    monkeypatch.setattr(engine_choice, "check_local_max", lambda *_: ctrl_c())
    assert compact(tier, "--set", "min.cleanable.dirty.ratio=0.9", hours=1).code == 130
    found = {row.topic: row for row in RunsTable(str(tier / "_tierfold")).read()}
    assert found["payments"].reason == "left for the next run: stopped by Ctrl-C (SIGINT)"
    assert (found["payments"].outcome, found["orders"].outcome) == ("left", "nothing_to_do")


def test_a_job_that_begins_after_the_signal_is_cancelled(spark: SparkSession) -> None:
    def sleeps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(3600)
        yield from batches

    slow = spark.range(0, 1, 1, 1).mapInArrow(sleeps, "id long")

    def begun_late() -> pa.Table:
        ctrl_c()
        time.sleep(0.5)
        return slow.toArrow()

    before = {*threading.enumerate()}
    progress = SparkProgress(spark, unheard)
    with pytest.raises(Stopped), stoppable():
        progress.watched("sleep", 1, begun_late)
    assert {*threading.enumerate()} <= before
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert spark.range(3).count() == 3


def test_an_action_does_not_begin_after_the_signal() -> None:
    begun: list[str] = []
    progress = ByteProgress(unheard, bytes_done=lambda: 0, cancel=lambda: None)
    with pytest.raises(Stopped), stoppable(), deferred():
        ctrl_c()
        progress.watched("late", 1, lambda: begun.append("late"))
    assert begun == []


def test_a_signal_that_the_process_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stoppable():
        ctrl_c()


def test_a_second_signal_is_ignored_also_while_the_process_ends() -> None:
    with pytest.raises(Stopped) as stopped, stoppable(), deferred():
        ctrl_c()
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert stopped.value.exit_code == 130


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_deferred_signal_says_once_and_at_once_what_is_finished(
    is_silent: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    def said_after(raised: signal.Signals) -> str:
        signal.raise_signal(raised)
        return capfd.readouterr().err

    with pytest.raises(Stopped), stoppable(), deferred(), finishing("all is committed"):
        if is_silent:
            stop_silently()
        with finishing("work is dropped"):
            lines = [said_after(signal.SIGINT), said_after(signal.SIGTERM)]
    said = "Stopping after Ctrl-C (SIGINT): work is dropped.\n"
    assert lines == ["" if is_silent else said, ""]


def test_what_is_finished_depends_on_when_the_signal_arrives(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Stopped), stoppable(), deferred():
        stop_silently()
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(Stopped), stoppable(), deferred(), finishing("all is committed"):
        with finishing("work is dropped"):
            pass
        signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == "Stopping after SIGTERM: all is committed.\n"


def test_a_signal_that_is_not_deferred_needs_no_such_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(Stopped), stoppable():
        signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == ""


def test_a_stderr_that_is_closed_stops_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    done = []
    with pytest.raises(Stopped), stoppable(), deferred():
        signal.raise_signal(signal.SIGINT)
        done.append("the wave")
    assert done


def test_handlers_are_restored_if_no_signal_arrived() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stoppable():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
