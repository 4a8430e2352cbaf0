"""`make demo` works on the bundled sample and reports what it saved."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.commands import ROOT
from tests.storage.tiers.aiven_samples import ZSTD
from tests.storage.tiers.aiven_tiers import segments_in
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.tier_uris import open_tier


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that the demo filled, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    # The environment is this one, and is not installed again.
    installed = ("-o", f"{sys.prefix}/.tierfold-runtime", f"VENV={sys.prefix}")
    done = subprocess.run(
        ["make", *installed, "demo", f"DEMO={folder}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return folder, done.stdout


def test_the_demo_prints_bytes_before_and_after(demo: tuple[Path, str]) -> None:
    before, after = (
        [
            int(found.replace(" ", ""))
            for found in re.findall(rf"^live bytes {what}: +(\d[\d ]*)$", demo[1], re.MULTILINE)
        ]
        for what in ("before", "after")
    )
    logs = (ROOT / "sample").glob("kafka-tiered-storage/*/*.log")
    aiven_bytes = sum(len(segment.parts["log"]) for segment in ZSTD.segments())
    assert before == [sum(log.stat().st_size for log in logs), aiven_bytes]
    assert after[0] < before[0] // 5
    assert after[1] < before[1] // 5


def test_the_demo_verifies_both_tiers(demo: tuple[Path, str]) -> None:
    printed = demo[1]
    assert printed.count("$ tierfold verify") == 2
    assert len(re.findall(r"verified: 1 segment.* keys agree", printed)) == 2


def must_have_each_key_once(log: Path) -> None:
    """Assert that the log has data records, and no two with the same key."""
    records = [record for batch in read_segment(log).batches() for record in batch.records]
    keys = [record.key for record in records if record.control_type is None]
    assert len(keys) == len(set(keys)) > 0


def test_the_demo_writes_in_the_layout_that_it_read(demo: tuple[Path, str]) -> None:
    before = {segment.segment_id for segment in ZSTD.segments()}
    after = segments_in(demo[0] / "aiven", ZSTD.key_prefix)
    (new,) = [segment for segment in after if segment.segment_id not in before]
    log = demo[0] / "decoded.log"
    log.write_bytes(new.parts["log"])
    must_have_each_key_once(log)


def test_the_demo_keeps_the_compacted_tier(demo: tuple[Path, str]) -> None:
    tier, sample = (open_tier(str(folder)) for folder in (demo[0] / "tier", ROOT / "sample"))
    (key,) = tier.partitions()
    after, before = (
        {segment.segment_id for segment in listed.listing(key)} for listed in (tier, sample)
    )
    assert before < after
    (new,) = after - before
    (log,) = (demo[0] / "tier").glob(f"kafka-tiered-storage/*/*{new}.log")
    must_have_each_key_once(log)
