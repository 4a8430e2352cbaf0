"""Runs on Aiven's layout, killed by SIGKILL while they write, or overtaken by a second run.

After each kill the tests' own reader of the layout reads every segment that has a manifest, and
Kafka's own classes read the live ones.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.processes import Application, awaited, signalled, started
from tests.faults.kills.killed_checks import (
    entry_key,
    must_commit_each_offset_once,
    newest_of,
)
from tests.faults.kills.killed_logs import WrittenTier, written_tier
from tests.faults.kills.killed_run import OPTIONS
from tests.jobs.aiven import BOTH, PREFIX, AivenCase
from tests.jobs.commands import CLOCK, Ran, tierfold, users_environment
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.remote_views import RemoteSegment, to_local
from tests.storage.tiers.aiven_tiers import aiven_tier, write_local
from tierfold.compaction.model.segments import PartitionKey

CASE: Final[AivenCase] = replace(BOTH, variant=replace(BOTH.variant, chunk_bytes=20_011))
SEGMENTS: Final = 4
SEED: Final = 11
LOCAL: Final = ("--engine", "local")
COMPLETE: Final = {".log", ".indexes", ".rsm-manifest"}
KILLS: Final = 6
DETACHED: Final = ("--set", "tier.binding=detached")

# CI has them in a folder of LocalTieredStorage (test_killed_runs.py, test_killed_rivals.py).
pytestmark = pytest.mark.soak


class Killed:
    """A tier in Aiven's layout, and what must hold for it at any time."""

    def __init__(self, folder: Path, lab: KafkaLab) -> None:
        self.folder = folder
        self.lab = lab
        self.written: WrittenTier = written_tier(folder / "local", SEED, SEGMENTS)
        self.tier = aiven_tier(self.written.path, folder / "tier", CASE.variant)
        self.runs: list[Application] = []

    def start(self) -> Application:
        """Start a run without Spark, in a process of its own."""
        words = ("-m", "tierfold", "compact", self.tier, *OPTIONS, *LOCAL, *CASE.arguments)
        name = f"run-{len(self.runs)}"
        self.runs.append(started((sys.executable, *words), self.folder, name, users_environment()))
        return self.runs[-1]

    def ran(self, verb: str, *options: str) -> Ran:
        found = tierfold(verb, self.tier, *CASE.arguments, *options, "--json")
        assert found.code == 0, found
        return found

    def await_objects(self, count: int, run: Application) -> None:
        """Wait until the tier has this many objects, or the run has ended."""

        def is_reached() -> bool | None:
            return len(self.objects()) >= count or run.process.poll() is not None or None

        awaited(f"{count} objects", is_reached, every_s=0.001)

    def objects(self) -> set[str]:
        """The names of all objects, hidden ones included, without the catalog's."""
        paths = self.tier.glob(f"{PREFIX}*/*/*")
        return {path.name for path in paths if "_tierfold" not in path.parts[-3]}

    def segment_objects(self) -> dict[str, set[str]]:
        """The suffixes of each segment's objects, by id."""
        found: dict[str, set[str]] = {}
        for name in self.objects():
            if not name.startswith("."):
                found.setdefault(Path(name).stem[21:], set()).add(Path(name).suffix)
        return found

    def check(self) -> tuple[int, ...]:
        """Check everything that must hold after a kill; return the partitions' cleaner offsets."""
        self.ran("verify")
        readable = CASE.segments(self.tier)
        whole = {id_ for id_, found in self.segment_objects().items() if ".rsm-manifest" in found}
        assert readable.keys() == whole
        entries = self.ran("status", "--segments").entries
        for entry in entries:
            key = entry_key(entry)
            assert {segment["id"] for segment in entry["segments"]} <= whole
            assert self._newest(key, entry) == self.written.truth[key]
        return tuple(entry["cleaner_offset"] or 0 for entry in entries)

    def _newest(self, key: PartitionKey, entry: dict[str, Any]) -> object:
        readable = CASE.segments(self.tier)
        live = [readable[segment["id"]] for segment in entry["segments"]]
        view, scratch = self.folder / f"{key.topic}-{key.partition}", self.folder / "decoded"
        for folder in (view, scratch):
            shutil.rmtree(folder, ignore_errors=True)
        write_local(scratch, live)
        segments = [
            RemoteSegment(
                start_offset=segment["start_offset"],
                end_offset=segment["end_offset"],
                log=next(scratch.rglob(f"*-{segment['id']}.log")),
            )
            for segment in entry["segments"]
        ]
        return newest_of(self.lab, to_local(segments, view))

    def is_finished(self) -> bool:
        return self.check() == tuple(self.written.end_offsets.values())


@pytest.fixture
def killed(lab: KafkaLab, tmp_path: Path) -> Iterator[Killed]:
    found = Killed(tmp_path, lab)
    yield found
    for run in found.runs:
        run.stop()


def test_a_kill_between_any_two_objects_loses_nothing(killed: Killed) -> None:
    rnd = random.Random(SEED)
    hit, torn = 0, 0
    for _ in range(KILLS):
        run = killed.start()
        wanted = len(killed.objects()) + rnd.randint(1, 7)
        killed.await_objects(wanted, run)
        signalled(run.process.pid, signal.SIGKILL)
        hit += run.process.wait() == -signal.SIGKILL
        is_whole = all(found == COMPLETE for found in killed.segment_objects().values())
        torn += not is_whole or any(name.startswith(".") for name in killed.objects())
        killed.check()
    assert hit >= KILLS - 1, "the runs ended before they were killed"
    assert torn, "no kill hit a write"
    assert killed.start().ended().code == 0
    assert killed.is_finished()
    later = (CLOCK, str(1_900_000_000_000), "--orphan-age", "0s", *DETACHED)
    killed.ran("vacuum", *later)
    entries = killed.ran("status", "--segments").entries
    live = {segment["id"] for entry in entries for segment in entry["segments"]}
    assert killed.segment_objects().keys() == live
    assert not [name for name in killed.objects() if name.startswith(".")]
    assert killed.is_finished()


def test_two_runs_commit_each_chunk_once(killed: Killed) -> None:
    runs = [killed.start(), killed.start()]
    codes = [run.ended().code for run in runs]
    assert set(codes) <= {0, 4}, [json.dumps(run.stderr.read_text()) for run in runs]
    killed.ran("compact", *OPTIONS[:-1], *LOCAL)
    assert killed.is_finished()
    catalog = killed.tier / f"{PREFIX}_tierfold"
    must_commit_each_offset_once(catalog, killed.written.end_offsets)


def test_a_run_that_is_paused_and_overtaken_is_fenced(killed: Killed) -> None:
    count = len(killed.objects())
    paused = killed.start()
    killed.await_objects(count + 1, paused)
    signalled(paused.process.pid, signal.SIGSTOP)
    overtaking = killed.start().ended()
    assert overtaking.code == 0, overtaking
    assert killed.is_finished()
    signalled(paused.process.pid, signal.SIGCONT)
    assert paused.ended().code == 4
    assert killed.is_finished()
