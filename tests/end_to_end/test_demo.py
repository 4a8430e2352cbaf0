"""`make demo` works on the bundled sample and reports what it saved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.tier_uris import open_tier

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that the demo filled, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        [ROOT / "scripts" / "demo", folder],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return folder, done.stdout


def test_the_demo_prints_bytes_before_and_after(demo: tuple[Path, str]) -> None:
    printed = demo[1]
    before, after = (
        int(found[1].replace(" ", ""))
        for what in ("before", "after")
        if (found := re.search(rf"^live bytes {what}: +(\d[\d ]*)$", printed, re.MULTILINE))
    )
    logs = (ROOT / "sample").glob("kafka-tiered-storage/*/*.log")
    assert before == sum(log.stat().st_size for log in logs)
    assert after < before // 5


def test_the_demo_verifies_the_tier(demo: tuple[Path, str]) -> None:
    printed = demo[1]
    assert "$ tierfold verify" in printed
    assert re.search(r"verified: 1 segment.* keys agree", printed)


def test_the_demo_keeps_the_compacted_tier(demo: tuple[Path, str]) -> None:
    tier = open_tier(str(demo[0] / "tier"))
    (key,) = tier.partitions()
    ours = {listed_segment.segment_id for listed_segment in tier.listing(key)}
    sample = open_tier(str(ROOT / "sample"))
    assert {listed_segment.segment_id for listed_segment in sample.listing(key)} < ours
    (new,) = ours - {listed_segment.segment_id for listed_segment in sample.listing(key)}
    (log,) = (demo[0] / "tier").glob(f"kafka-tiered-storage/*/*{new}.log")
    records = [record for batch in read_segment(log).batches() for record in batch.records]
    keys = [record.key for record in records if record.control_type is None]
    assert len(keys) == len(set(keys)) > 0
