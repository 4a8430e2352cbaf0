"""A Spark worker reads `kafka-segments` with the packages of the cluster's archive alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from scripts.cluster_archive import OTHERS
from tests.jobs.aiven import BOTH, PREFIX
from tests.jobs.archive_alone import ARCHIVE_ALONE
from tests.jobs.commands import ROOT
from tests.jobs.sources.planned_reads import planned_read
from tests.jobs.tiers import RECORDS_PER_SEGMENT, key_of, updated_tier
from tests.storage.tiers.aiven_samples import KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.jobs.sources.segment_source import KafkaSegments, SegmentsOnEncryptedDisks

WORKER: Final = ARCHIVE_ALONE + """
import pyarrow
from pyspark.serializers import CPickleSerializer, read_int

read = sys.stdin.buffer
task, _ = CPickleSerializer()._read_with_length(read)
rows = 0
for _ in range(read_int(read)):
    planned = pyarrow.array([read.read(read_int(read))], pyarrow.binary())
    batch = pyarrow.RecordBatch.from_arrays([planned], names=["partition"])
    rows += sum(found.num_rows for found in task(iter([batch])))
print(json.dumps([rows, sorted(name for name in sys.modules if name.startswith("tierfold"))]))
"""
"""Reads as Spark's worker does, without the packages that executors lack."""


def plain(tier: Path, _: Path) -> KafkaSegments:
    """The source of a tier in Kafka's own layout."""
    return KafkaSegments({"path": str(tier)})


def encrypted(tier: Path, folder: Path) -> KafkaSegments:
    """The source of the same tier, compressed and encrypted in Aiven's layout."""
    found = aiven_tier(tier, folder, BOTH.variant)
    key = {"key.prefix": PREFIX, "encryption.key": f"key-1={KEY_FILE}"}
    return SegmentsOnEncryptedDisks({"path": str(found), **key})


@pytest.mark.parametrize("made", [plain, encrypted])
def test_a_task_imports_no_package_that_executors_lack(
    tmp_path: Path, made: Callable[[Path, Path], KafkaSegments]
) -> None:
    tier = updated_tier(tmp_path / "tier", (key_of("orders"),), segments=2)
    planned = planned_read(made(tier, tmp_path / "aiven"))
    done = subprocess.run(
        [sys.executable, "-c", WORKER, json.dumps(OTHERS)],
        cwd=ROOT,
        input=planned,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    rows, ours = json.loads(done.stdout)
    assert rows == 2 * RECORDS_PER_SEGMENT
    assert "tierfold.jobs.sources.segment_tasks" in ours
    assert not [name for name in ours if name.startswith("tierfold.storage.catalog")]
