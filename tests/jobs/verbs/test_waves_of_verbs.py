"""`vacuum` and `verify` work in waves: what is done counts, and the rest is left."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import tierfold as api
from tests.jobs.claims import ORDERS
from tests.jobs.commands import LOCAL_ENGINE, clocks_at, tierfold
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import copied, files_below, key_of
from tests.jobs.vacuum_tiers import THEN_MS, compacted, vacuum
from tests.storage.call_scripts import at
from tierfold.compaction.deletion.deletion_plan import VacuumLimits
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.jobs.context.byte_progress import Progress
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.context.stopping import Stopped, stoppable
from tierfold.jobs.reports.verify_report import VerifyResult
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs import vacuum as vacuum_verb
from tierfold.jobs.verbs.verified import Verified
from tierfold.jobs.verbs.verify import verify
from tierfold.storage.catalog.catalog import Catalog

ONE: WaveLimit = WaveLimit(partitions=1, work=1)
PAYMENTS = key_of("payments")
LATER_MS = THEN_MS + 10**9


tier = copied(lambda folder: compacted(folder, ORDERS, PAYMENTS, segments=2))


@pytest.fixture(autouse=True)
def _small_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tierfold.jobs.verbs.verify.FIRST_WAVE_OF_BYTES", ONE)
    monkeypatch.setattr("tierfold.jobs.verbs.vacuum.FIRST_WAVE_OF_OBJECTS", ONE)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_verification_that_is_stopped_reports_what_it_has_verified(
    tier: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ends: list[Progress] = []

    def stop_in_the_second(progress: Progress) -> None:
        if progress.step != "verify":
            return
        if ends and not progress.is_ended:
            stop()
        elif progress.is_ended:
            ends.append(progress)

    found: list[Verified] = []
    with suppress(Stopped), stoppable():
        progress = RunProgress(stop_in_the_second)
        context = replace(run_context(str(tier), None), progress=progress)
        found = verify(context, resolve([]), Scope(), engine=LOCAL_ENGINE)
    assert capfd.readouterr().err == (
        "Stopping after SIGTERM: the reading of 1 partition is dropped; others are reported.\n"
    )
    outcomes = [(one.outcome, one.reason) for one in found]
    assert outcomes == [("sound", ""), ("left", "stopped by SIGTERM")]
    shown = str(VerifyResult(tier=str(tier), partitions=tuple(found)))
    assert "left: stopped by SIGTERM" in shown


@pytest.mark.parametrize("verb", ["verify", "vacuum"])
def test_nothing_begins_after_the_duration(tier: Path, verb: str) -> None:
    before = files_below(tier / ORDERS.topic)
    if verb == "vacuum":
        ran = vacuum(tier, "--max-duration", "0s")
    else:
        ran = tierfold("verify", tier, "--engine", "local", "--json", "--max-duration", "0s")
    assert (ran.code, set(ran.outcomes.values())) == (0, {"left"})
    assert ran.partitions["orders", 0]["reason"].startswith("--max-duration has passed")
    assert files_below(tier / ORDERS.topic) == before


def test_a_vacuum_that_is_stopped_has_finished_its_wave_and_released_it(tier: Path) -> None:
    # The commit that starts the second partition's deletion.
    with scripted(at("commit 3", stop)):
        ran = vacuum(tier)
    assert ran.code == 143
    assert sorted(ran.outcomes.values()) == ["failed", "vacuumed"]
    rows = Catalog(str(tier / "_tierfold")).read().values()
    assert {row.owner_run for row in rows} == {""}
    assert sorted(bool(row.retired) for row in rows) == [False, True]
    again = vacuum(tier)
    assert sorted(again.outcomes.values()) == ["nothing_to_do", "vacuumed"]


def test_a_signal_between_two_waves_leaves_the_second(tier: Path) -> None:
    with scripted(at("commit 2", stop, is_done=True)):
        ran = vacuum(tier)
    assert ran.code == 143
    assert sorted(ran.outcomes.values()) == ["left", "vacuumed"]
    left = next(one for one in ran.partitions.values() if one["outcome"] == "left")
    assert left["reason"] == "stopped by SIGTERM; nothing was deleted"


def test_a_vacuum_says_at_once_what_it_finishes(
    tier: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def stop_in_deletion(progress: Progress) -> None:
        if progress.step == "delete" and not said:
            stop()
            said.append(capfd.readouterr().err)

    with clocks_at(LATER_MS):
        context = run_context(str(tier), None)
    context = replace(context, progress=RunProgress(stop_in_deletion))
    limits = VacuumLimits(now_ms=context.now_ms, grace_ms=0, orphan_age_ms=0)
    with suppress(Stopped), stoppable():
        vacuum_verb.vacuum(context, resolve(["tier.binding=detached"]), Scope(), limits)
    assert said == [f"Stopping after SIGTERM: {vacuum_verb.STOPS}.\n"]


@pytest.mark.parametrize("verb", ["verify", "vacuum"])
def test_progress_counts_partitions_and_bytes_of_the_whole_run(tier: Path, verb: str) -> None:
    seen: list[Progress] = []
    with clocks_at(LATER_MS):
        if verb == "verify":
            api.verify(tier, engine="local", progress=seen.append)
        else:
            detached = {"tier.binding": "detached"}
            api.vacuum(tier, settings=detached, progress=seen.append)
    survey = [one for one in seen if one.step == "survey"]
    assert (survey[0].partitions_total, survey[-1].partitions_total) == (None, 2)
    assert survey[-1].partitions_done == 2
    work = seen[len(survey) :]
    totals = {(one.partitions_total, one.run_bytes_total) for one in work}
    ((partitions, size_bytes),) = totals
    assert partitions == 2
    assert (work[0].run_bytes_done, work[-1].run_bytes_done) == (0, size_bytes)
    shares = [one.share for one in work]
    assert shares == sorted(shares)
    assert {one.partitions_done for one in work} >= {0, 1}
