"""A user's own Spark session reads from an encrypted tier what a consumer reads from a broker."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.jobs.commands import in_own_process
from tests.storage.tiers.aiven_samples import ENCRYPTED, KEY_FILE

pytestmark = [pytest.mark.jvm, pytest.mark.soak]


def test_a_session_reads_the_records_of_the_encrypted_sample(tmp_path: Path) -> None:
    tier = shutil.copytree(ENCRYPTED.bucket, tmp_path / "tier")
    done = in_own_process(sys.executable, "-m", "tests.end_to_end.read_encrypted", tier, KEY_FILE)
    assert done.code == 0, done
    consumed = json.loads((ENCRYPTED.folder / "consumed.json").read_text())["read_committed"]
    assert done.stdout.split() == [str(consumed["records"]), consumed["sha256"]]
