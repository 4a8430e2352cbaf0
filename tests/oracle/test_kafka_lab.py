"""The lab starts its JVM, reports errors, and makes the same log again from the same seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.commands import ROOT
from tests.oracle import kafka_jars
from tests.oracle.kafka_jars import KafkaLabError
from tests.oracle.kafka_lab import KafkaLab


def test_the_same_seed_gives_the_same_bytes(lab: KafkaLab, tmp_path: Path) -> None:
    made, _ = (
        lab.make(tmp_path / name / "t-0", seed=5, records=300, codec="none,lz4", txn=2)
        for name in ("a", "b")
    )
    logs = [sorted((tmp_path / name / "t-0").glob("*.log")) for name in ("a", "b")]
    assert [log.read_bytes() for log in logs[0]] == [log.read_bytes() for log in logs[1]]
    assert made["records"] == 300
    assert made["logEndOffset"] == 300 + made["markers"]


def test_batches_and_side_files_match_what_was_made(lab: KafkaLab, tmp_path: Path) -> None:
    made = lab.make(
        tmp_path / "t-0", seed=6, records=800, txn=2, abort=0.5, epochs=3, segment_bytes="20k"
    )
    batches = lab.batches(tmp_path / "t-0")
    assert len(batches) == made["batches"] + made["markers"]
    assert sum(len(batch["records"]) for batch in batches) == 800 + made["markers"]
    side_files = lab.side_files(tmp_path / "t-0")
    assert len(side_files["txnindex"]) == made["abortedTxns"] > 0
    assert [line["epoch"] for line in side_files["leaderEpoch"]] == [0, 1, 2]
    assert {line["file"] for line in side_files["snapshot"]} >= {
        f"{made['activeSegmentBase']:020d}.snapshot"
    }


def test_clean_keeps_the_last_record_of_every_key(lab: KafkaLab, tmp_path: Path) -> None:
    lab.make(tmp_path / "t-0", seed=8, records=500, keys=20)
    done = lab.clean(tmp_path / "t-0", tmp_path / "out" / "t-0", now_ms=1_700_000_100_000)
    last = {
        record["key"]: record["offset"]
        for batch in lab.batches(tmp_path / "t-0")
        for record in batch["records"]
    }
    kept = lab.batches(tmp_path / "out" / "t-0")
    assert sorted(last.values()) == [r["offset"] for b in kept for r in b["records"]]
    assert done["endOffset"] == 500


def test_a_tool_that_fails_raises_and_the_next_call_works(lab: KafkaLab, tmp_path: Path) -> None:
    with pytest.raises(KafkaLabError, match="unknown option recrods; known: "):
        lab.make(tmp_path / "t-0", recrods=5)
    with pytest.raises(KafkaLabError, match="must look like <topic>-<partition>"):
        lab.make(tmp_path / "nonsense")
    assert lab.make(tmp_path / "t-0", records=5)["records"] == 5


def test_a_closed_lab_starts_again(tmp_path: Path) -> None:
    with KafkaLab() as own:
        own.make(tmp_path / "t-0", records=5)
        own.close()
        assert own.make(tmp_path / "t-0", records=6)["records"] == 6


def test_a_jvm_that_died_is_replaced(tmp_path: Path) -> None:
    with KafkaLab() as own:
        own.make(tmp_path / "t-0", records=5)
        assert own._process is not None
        own._process.kill()
        own._process.wait()
        assert own.make(tmp_path / "t-0", records=6)["records"] == 6


def test_two_runs_at_once_fill_one_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jars = Path(kafka_jars.class_path().split(os.pathsep)[1]).parent
    monkeypatch.setenv(kafka_jars.CACHE_VARIABLE, str(tmp_path))
    cache = kafka_jars.cache_folder(kafka_jars.OLDEST)
    cache.mkdir(parents=True)
    (cache / jars.name).symlink_to(jars)
    code = "from tests.oracle.kafka_jars import class_path; print(class_path())"
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(2)
    ]
    printed = {run.communicate()[0] for run in runs}
    assert [run.returncode for run in runs] == [0, 0]
    assert len(printed) == 1
    kinds = sorted(path.name.split("-")[0] for path in cache.iterdir())
    assert kinds == ["classes", "jars", "lock"]


def test_a_missing_jdk_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv(kafka_jars.CACHE_VARIABLE, str(tmp_path / "cache"))
    with pytest.raises(KafkaLabError, match="install a JDK 17 or newer"):
        kafka_jars.class_path()
    cache = kafka_jars.cache_folder(kafka_jars.OLDEST)
    assert [path.name for path in cache.iterdir()] == ["lock"]
