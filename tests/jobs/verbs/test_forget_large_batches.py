"""`forget` reads batches by the topic's `decompressed.batch.max.bytes`, wherever it reads any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.commands import tierfold
from tests.jobs.elections import NEW, OLD, ORDERS, known, old_history, upload
from tests.jobs.tiers import made_tier
from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import data, log_of
from tierfold.compaction.model.segments import LeaderEpoch
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.compression import PLAIN_BYTES_TRUSTED
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.tiers.tier_uris import open_tier

SETTING = "decompressed.batch.max.bytes"


def large(offset: int) -> bytes:
    """A wrapper that takes more than is accepted by default."""
    return wrapper(offset, message(0, b"v" * PLAIN_BYTES_TRUSTED))


def put(
    tier: Path, start: int, batches: Sequence[BatchDraft | bytes], lineage: tuple[LeaderEpoch, ...]
) -> None:
    broker = BrokerUpload(
        start_offset=start, log=log_of(batches), index_interval_bytes=50, lineage=lineage
    )
    broker.put(open_tier(str(tier)), ORDERS)


def in_a_new_epoch(tier: Path) -> None:
    """Where an epoch begins, the batches are checked, too."""
    old_history(tier)
    known(tier)
    put(tier, 6, [replace(data(6, (b"k", b"v")), leader_epoch=4), large(7)], NEW)


def beside_a_live_upload(tier: Path) -> None:
    """A segment that a dead run may have made of the live upload: one batch is missing."""
    made_tier(tier)
    upload(tier, 0, 5)
    put(tier, 6, [large(6), data(7, (b"k", b"v")), data(8, (b"k", b"v"))], OLD)
    known(tier)
    upload(tier, 8, 9, (*OLD, LeaderEpoch(epoch=4, start_offset=8)))
    put(tier, 6, [large(6), data(7, (b"k", b"v"))], OLD)


@pytest.mark.parametrize(
    "made", [in_a_new_epoch, pytest.param(beside_a_live_upload, marks=pytest.mark.soak)]
)
def test_the_topics_limit_lets_the_batch_in(made: Callable[[Path], None], tmp_path: Path) -> None:
    tier, config = tmp_path / "tier", tmp_path / "mine.toml"
    made(tier)
    words = ("forget", tier, "orders-0", "--dry-run", "--json")
    refused = tierfold(*words)
    assert (refused.code, refused.outcomes["orders", 0]) == (3, "refused")
    assert f"set {SETTING} to the most" in refused.entry["reason"]
    config.write_text(f'[topics."orders"]\n"{SETTING}" = {PLAIN_BYTES_TRUSTED + 2**10}\n')
    allowed = tierfold(*words, "--config", config)
    assert allowed.outcomes["orders", 0] == "planned", allowed.entry["reason"]
