"""`dump` decodes a `.log` of Aiven's plugin and prints what it prints of the log itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.commands import tierfold
from tests.storage.tiers.aiven_objects import Variant
from tests.storage.tiers.aiven_samples import KEY_FILE, SAMPLES, ZSTD, Sample
from tests.storage.tiers.aiven_tiers import write_aiven


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_stored_log_is_printed_as_the_log_itself(sample: Sample, tmp_path: Path) -> None:
    segment = sample.segments()[0]
    log = tmp_path / f"{segment.start_offset:020d}.log"
    log.write_bytes(segment.parts["log"])
    stored = sample.bucket / f"{sample.key_prefix}{segment.stem}.log"
    key = ("--encryption-key", f"key-1={KEY_FILE}") if sample.keys else ()
    found = tierfold("dump", stored, *key)
    assert found.code == 0, found.stderr
    assert found.stdout == tierfold("dump", log).stdout
    assert len(found.stdout.splitlines()) > 4000


def test_a_prefix_within_the_folders_name_needs_no_option(tmp_path: Path) -> None:
    segment = ZSTD.segments()[0]
    tier = write_aiven(tmp_path, [segment], Variant(key_prefix="of-", is_compressed=True))
    assert tierfold("dump", tier / f"of-{segment.stem}.log").code == 0


def test_without_its_key_a_log_is_not_decoded() -> None:
    (first, *_) = sorted(SAMPLES[2].bucket.rglob("*.log"))
    found = tierfold("dump", first)
    assert found.code in {2, 3}
    assert (found.stdout, found.stderr.count("\n")) == ("", 1)
    assert "key-1" in found.stderr
