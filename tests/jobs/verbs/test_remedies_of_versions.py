"""A part of a version that is not known yet: an update of tierfold compacts the same tier.

No version of tierfold knows one, so this version is taught it: its constant is that version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from tests.jobs.aiven import PLAIN
from tests.jobs.commands import ALWAYS, tierfold, told
from tests.jobs.tiers import KEYS, files_below, key_of, put_segment, updated_tier
from tests.storage.live_segments import an_abort, data, marker
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.storage.indexes import leader_epoch_checkpoint, producer_snapshot, transaction_index
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.tiers.aiven import manifest

KEY = key_of("orders")


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """A kind of file, and the version after the one that is known."""

    pattern: str
    module: ModuleType
    version: int | str
    before: bytes
    after: bytes
    said: str


NEWER = [
    Newer(
        pattern="*.snapshot",
        module=producer_snapshot,
        version=2,
        before=b"\0\1",
        after=b"\0\2",
        said="the producer snapshot has version 2",
    ),
    Newer(
        pattern="*.txnindex",
        module=transaction_index,
        version=1,
        before=b"\0\0",
        after=b"\0\1",
        said="entry 0 of the transaction index has version 1",
    ),
    Newer(
        pattern="*.leader_epoch_checkpoint",
        module=leader_epoch_checkpoint,
        version="1",
        before=b"0\n",
        after=b"1\n",
        said="the leader epoch checkpoint has version 1",
    ),
    Newer(
        pattern="*.rsm-manifest",
        module=manifest,
        version="2",
        before=b'{"version":"1"',
        after=b'{"version":"2"',
        said='its version is \\"2\\"',
    ),
]


def with_an_abort(folder: Path) -> Path:
    """Two segments, of which the second has an aborted transaction."""
    tier = updated_tier(folder, [KEY], 1)
    batches = [data(11, (KEYS[0], b"aborted"), producer_id=7), marker(12, 7, ControlType.ABORT)]
    put_segment(tier, KEY, batches, start_offset=11, aborted=[an_abort(7, 11, 12)])
    return tier


def in_aiven(folder: Path) -> Path:
    return aiven_tier(updated_tier(folder.parent / "local", [KEY], 2), folder, PLAIN.variant)


def renewed(tier: Path, newer: Newer) -> None:
    """Give all files of the kind that version, as the brokers' newer Kafka would."""
    paths = list(tier.rglob(newer.pattern))
    assert paths
    for path in paths:
        content = path.read_bytes()
        assert content.startswith(newer.before)
        path.write_bytes(newer.after + content.removeprefix(newer.before))


@pytest.mark.parametrize("newer", NEWER, ids=lambda newer: newer.pattern[2:])
def test_an_update_of_tierfold_compacts_the_tier(
    newer: Newer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make: Callable[[Path], Path] = in_aiven if newer.module is manifest else with_an_abort
    tier = make(tmp_path / "tier")
    renewed(tier, newer)
    before = files_below(tier)
    command = ("compact", tier, *ALWAYS, "--json")
    refused = tierfold(*command)
    assert refused.code == 3
    words = (newer.said, "update tierfold", "leave the topic out (name the others with --topic)")
    assert not told(refused.stdout, *words), refused.stdout
    assert before.items() <= files_below(tier).items()
    monkeypatch.setattr(newer.module, "_VERSION", newer.version)
    tierfold(*command).ends(0, "compacted")
    assert tierfold("verify", tier, "--json").code == 0
