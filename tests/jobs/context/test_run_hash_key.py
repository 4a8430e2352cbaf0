"""Each run hashes record keys with a secret of its own, which it writes nowhere.

A producer that knew it could make keys that collide, and stall a run.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.jobs.commands import ALWAYS, tierfold
from tests.jobs.tiers import key_of, made_tier, updated_tier
from tierfold.compaction.model.hash_key import HashKey
from tierfold.jobs.context import run_context as context_module
from tierfold.jobs.context.run_context import run_context
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER


def forms(key: HashKey) -> set[bytes]:
    """Both halves as they may stand in a file: bytes of either order, and text."""
    return {
        form
        for half in key
        for form in (
            *(struct.pack("<Q", half), struct.pack(">Q", half)),
            *(str(half).encode(), f"{half:016x}".encode()),
        )
    }


def test_two_runs_have_different_keys(tmp_path: Path) -> None:
    tier = str(made_tier(tmp_path / "tier"))
    keys = [run_context(tier).hash_key for _ in range(3)]
    assert len({half for key in keys for half in key}) == 6


def test_no_file_has_the_key_of_the_run_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[HashKey] = []
    draw = context_module.new_hash_key

    def kept() -> HashKey:
        drawn.append(draw())
        return drawn[-1]

    monkeypatch.setattr(context_module, "new_hash_key", kept)
    tier = updated_tier(tmp_path / "tier", [key_of("orders")], segments=2)
    assert tierfold("compact", tier, *ALWAYS).code == 0
    (key,) = drawn
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in (tier / CATALOG_FOLDER).rglob("*")} >= {".parquet", ".keys"}
    (tmp_path / "planted").write_bytes(b"x%dx" % key.second)
    planted = [*files, tmp_path / "planted"]
    found = [path for path in planted if any(form in path.read_bytes() for form in forms(key))]
    assert found == [tmp_path / "planted"]
