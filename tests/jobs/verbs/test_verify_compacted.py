"""`verify` accepts a real broker's sample after `compact` has cleaned it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.jobs.commands import LOCAL_ENGINE
from tierfold.compaction.model.segments import Segment
from tierfold.jobs.cli import commands
from tierfold.jobs.cli.exit_codes import EXIT_PARTITION_FAILED
from tierfold.jobs.context.run_context import RunContext, run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.compact import compact
from tierfold.storage.indexes.transaction_index import read_transaction_index
from tierfold.storage.kafka.batch_layout import CRC, CRC_AT
from tierfold.storage.kafka.checksums import crc32c
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, part_key
from tierfold.storage.tiers.remote_tier import Part, address_of

SAMPLE = Path(__file__).parents[3] / "sample"


@pytest.fixture(scope="module")
def compacted(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compacted copy of the sample."""
    tier = tmp_path_factory.mktemp("compacted") / "tier"
    shutil.copytree(SAMPLE, tier)
    settings = resolve(["cleanup.policy=compact"])
    (report,) = compact(
        run_context(str(tier), None, None),
        settings,
        Scope(),
        engine=LOCAL_ENGINE,
    )
    assert report.outcome == "compacted"
    return tier


def keys_of_sample() -> set[bytes]:
    """The keys of all committed records, by a loop that anybody can check."""
    logs = sorted((SAMPLE / TIER_FOLDER).rglob("*.log"))
    aborted = [
        entry
        for log in logs
        for entry in read_transaction_index(log.with_suffix(".txnindex").read_bytes(), "sample")
    ]
    return {
        record.key
        for log in logs
        for batch in read_segment(log).batches()
        for record in batch.records
        if record.key is not None
        and not batch.is_control
        and not any(
            batch.is_transactional
            and entry.producer_id == batch.producer_id
            and entry.first_offset <= record.offset <= entry.last_offset
            for entry in aborted
        )
    }


def live_log(context: RunContext) -> tuple[Segment, Path]:
    """The one live segment and where its log lies."""
    ((key, state),) = context.catalog.read(context.tier.partitions()).items()
    (segment,) = state.segments
    address = part_key(address_of(key, segment), Part.LOG)
    return segment, Path(context.tier_uri) / address


def test_compaction_keeps_the_latest_value_of_every_key(compacted: Path) -> None:
    done = CliRunner().invoke(commands.tierfold, ["verify", str(compacted), "--json"])
    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)["partitions"]
    assert (found["corruptions"], found["notes"]) == ([], [])
    assert found["keys_compared"] == len(keys_of_sample())
    assert found["segments"] == 1


def test_people_get_a_table_and_one_line(compacted: Path) -> None:
    done = CliRunner().invoke(commands.tierfold, ["verify", str(compacted)])
    assert done.exit_code == 0
    keys = f"{len(keys_of_sample()):,}".replace(",", " ")
    assert f"{keys} keys agree with the originals" in done.stdout.splitlines()[-2]


def test_a_value_that_changed_under_a_right_checksum_is_found(
    compacted: Path, tmp_path: Path
) -> None:
    tier = tmp_path / "tier"
    shutil.copytree(compacted, tier)
    _, path = live_log(run_context(str(tier), None, None))
    content = read_segment(path)
    batch = next(
        batch
        for batch in content.batches()
        if batch.codec == "none"
        and not batch.is_control
        and batch.records
        and batch.records[0].value
    )
    value = batch.records[0].value or b""
    log = bytearray(path.read_bytes())
    at = log.index(value, batch.position)
    log[at] ^= 1
    end = batch.position + batch.size_bytes
    crc = crc32c(np.frombuffer(log[batch.position : end], np.uint8))
    CRC.pack_into(log, batch.position + CRC_AT, crc)
    path.write_bytes(log)
    done = CliRunner().invoke(commands.tierfold, ["verify", str(tier), "--json"])
    assert done.exit_code == EXIT_PARTITION_FAILED
    (found,) = json.loads(done.stdout)["partitions"]
    (fault,) = found["corruptions"]
    assert fault.startswith(f"1 of {len(keys_of_sample())} keys have another latest value")
    assert (batch.records[0].key or b"").hex() in fault
