"""Remedies of damaged objects in Aiven's layout, carried out as the message says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.jobs.aiven import ENCRYPTED_CASE, PLAIN, ZSTD, AivenCase
from tests.jobs.commands import ALWAYS, Ran, tierfold, told
from tests.jobs.tiers import files_below, key_of, latest_updates, updated_tier
from tests.storage.tiers.aiven_tiers import aiven_tier

SEGMENTS = 2


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def no_json(path: Path) -> None:
    path.write_bytes(b"{")


def no_data_key(path: Path) -> None:
    fields = json.loads(path.read_text())
    fields["encryption"]["dataKey"] = "key-1"
    path.write_text(json.dumps(fields))


LEAVE_OUT = "eave the topic out (name the others with --topic)"
DAMAGES = [
    pytest.param(PLAIN, "log", shorten, "its manifest says", id="log"),
    pytest.param(
        PLAIN, "indexes", shorten, "its manifest says", id="indexes", marks=pytest.mark.soak
    ),
    pytest.param(PLAIN, "log", flip, "bad CRC", id="batch"),
    pytest.param(ZSTD, "log", flip, "If a backup of the segment", id="compressed"),
    pytest.param(ENCRYPTED_CASE, "log", flip, "cannot be decrypted", id="encrypted"),
    pytest.param(
        *(ENCRYPTED_CASE, "indexes", flip, "cannot be decrypted"),
        id="encrypted indexes",
        marks=pytest.mark.soak,
    ),
    pytest.param(PLAIN, "rsm-manifest", no_json, "the manifest cannot be used", id="manifest"),
    pytest.param(
        ENCRYPTED_CASE, "rsm-manifest", no_data_key, "dataKey is not a key id", id="data key"
    ),
]
"""What is done to an object of the last segment, and what the message says."""


@pytest.mark.parametrize(("case", "suffix", "damage", "said"), DAMAGES)
def test_an_object_is_taken_from_a_backup_or_its_topic_is_left_out(
    case: AivenCase, suffix: str, damage: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    keys = (key_of("orders"), key_of("payments"))
    local = updated_tier(tmp_path / "local", keys, SEGMENTS)
    tier = aiven_tier(local, tmp_path / "tier", case.variant)
    backup = Path(shutil.copytree(tier, tmp_path / "backup"))
    damaged = max(tier.rglob(f"*orders-*/0/*.{suffix}"))
    damage(damaged)

    def compacted(*options: str) -> Ran:
        return tierfold("compact", tier, *case.arguments, *ALWAYS, *options, "--json")

    before = files_below(damaged.parent)
    # If a backup has the same bytes, the other topics are still compacted.
    others = compacted("--topic", "payments")
    assert (others.code, others.outcomes) == (0, {("payments", 0): "compacted"})
    refused = compacted()
    assert refused.code == 3
    reason = refused.entry["reason"]
    assert not told(reason, damaged.stem, said, LEAVE_OUT), reason
    assert "If a backup of " in reason or "from a copy" in reason, reason
    assert files_below(damaged.parent) == before
    shutil.copyfile(backup / damaged.relative_to(tier), damaged)
    assert compacted().entry["outcome"] == "compacted"
    status = tierfold("status", tier, *case.arguments, "--json", "--segments").entry
    assert tierfold("verify", tier, *case.arguments, "--json").code == 0
    (out := tmp_path / "out").mkdir()
    assert case.live_values(tier, status, out) == latest_updates(SEGMENTS)
