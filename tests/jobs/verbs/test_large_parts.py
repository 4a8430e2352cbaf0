"""Parts beside a log that are too large: one sentence, that partition only, and no memory.

An offset or time index is not needed: a rewrite builds it again, as any that is corrupt.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.aiven import PLAIN
from tests.jobs.commands import ALWAYS, CLOCK, tierfold, told
from tests.jobs.tiers import NOW_MS, folder_of, key_of, updated_tier
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.storage.tiers.aiven.manifest import PIECES
from tierfold.storage.tiers.remote_tier import PART_BYTES_MAX, Part

BAD, GOOD = key_of("bad", 0), key_of("good", 0)
COMPACT: Final = ("--set", "tier.binding=detached", CLOCK, str(NOW_MS), "--json")
TIB: Final = 2**40


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """Two partitions of LocalTieredStorage."""
    return updated_tier(tmp_path / "tier", (BAD, GOOD), segments=2)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """This process may map 16 GiB more, far less than the parts claim."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + 2**34, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


INDEXES: Final = {Part.OFFSET_INDEX, Part.TIME_INDEX}


def compacted(tier: Path, part: Part, where: str) -> None:
    """Compact; only the bad partition is refused for its part, or notes its index."""
    found = tierfold("compact", tier, *ALWAYS, *COMPACT)
    outcomes = {entry["topic"]: entry for entry in found.entries}
    assert outcomes["good"]["outcome"] == "compacted"
    bad = outcomes["bad"]
    said = f"the .{part} has more than {PART_BYTES_MAX[part]} bytes, and is not read"
    if part not in INDEXES:
        assert (found.code, bad["outcome"] in {"refused", "failed"}) == (3, True)
        assert not told(bad["reason"], said, where, "a backup of")
        return
    assert (found.code, bad["outcome"]) == (0, "compacted")
    assert any(said in note for note in bad["notes"])
    verified = tierfold("verify", tier, *ALWAYS[:2], *COMPACT)
    assert (verified.code, verified.partitions["bad", 0]["corruptions"]) == (0, [])


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("part", PART_BYTES_MAX)
def test_a_part_of_a_tebibyte_is_not_read(tier: Path, part: Part) -> None:
    if part is Part.TRANSACTION_INDEX:
        for log in folder_of(tier, BAD).glob("*.log"):
            log.with_suffix(f".{part}").touch()
    path = max(folder_of(tier, BAD).glob(f"*.{part}"))
    os.truncate(path, TIB)
    if part in INDEXES:
        # Before it is compacted, `verify` alone calls it corrupt.
        corrupt = tierfold("verify", tier, *ALWAYS[:2], *COMPACT)
        (said,) = corrupt.partitions["bad", 0]["corruptions"]
        assert not told(said, path.name, "builds the segment's indexes again")
    compacted(tier, part, path.name)


@pytest.mark.parametrize("part", PIECES)
def test_a_piece_that_is_too_large_is_not_read(tier: Path, tmp_path: Path, part: Part) -> None:
    aiven = aiven_tier(tier, tmp_path / "aiven", PLAIN.variant)
    path = max(aiven.glob("bad-*/0/*.rsm-manifest"))
    fields = json.loads(path.read_text())
    stored, position = path.with_suffix(".indexes").read_bytes(), 0
    with path.with_suffix(".indexes").open("wb") as indexes:
        for piece, name in PIECES.items():
            old = fields["segmentIndexes"][name] or {"position": 0, "size": 0}
            indexes.seek(position)
            indexes.write(stored[old["position"] : old["position"] + old["size"]])
            size = PART_BYTES_MAX[piece] + 1 if piece is part else old["size"]
            fields["segmentIndexes"][name] = {"position": position, "size": size}
            position += size
        indexes.truncate(position)
    path.write_text(json.dumps(fields))
    compacted(aiven, part, path.stem)
