"""A batch that takes more than is accepted by default, and `decompressed.batch.max.bytes`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.commands import ALWAYS, Ran, tierfold, told
from tests.jobs.tiers import files_below, folder_of, key_of, made_tier, put_segment, put_updates
from tests.storage.live_segments import data
from tierfold.compaction.model.errors import BadSettings
from tierfold.jobs.sources.segment_options import request_of
from tierfold.storage.kafka.compression import PLAIN_BYTES_TRUSTED, Codec

LARGE, SMALL = key_of("large"), key_of("small")
TO_ALLOW = ("--set", f"decompressed.batch.max.bytes={PLAIN_BYTES_TRUSTED + 2**10}")


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics; one has a batch of zeros, 128 MiB, in some kilobytes of zstd."""
    tier = made_tier(tmp_path_factory.mktemp("large batches"))
    zeros = bytes(PLAIN_BYTES_TRUSTED)
    first = replace(data(0, (b"a", b"old"), (b"b", zeros)), codec=Codec.ZSTD)
    put_segment(tier, LARGE, [first], start_offset=0)
    put_segment(tier, LARGE, [data(2, (b"a", b"new"))], start_offset=2)
    put_updates(tier, SMALL, 0)
    put_updates(tier, SMALL, 1)
    return tier


def verified(tier: Path, *options: str) -> Ran:
    return tierfold("verify", tier, "--topic", "large", *options, "--json")


def test_the_setting_that_the_message_names_lets_the_batch_in(tier: Path) -> None:
    before = files_below(folder_of(tier, LARGE))
    refused = tierfold("compact", tier, *ALWAYS, "--json")
    assert refused.code == 3
    assert refused.outcomes == {("large", 0): "failed", ("small", 0): "compacted"}
    reason = refused.partitions["large", 0]["reason"]
    assert not told(
        reason,
        ".log: the batch at byte 0 (base offset 0)",
        f"holds more than {PLAIN_BYTES_TRUSTED} when decompressed",
        "set decompressed.batch.max.bytes to the most that a batch may take",
    ), reason
    assert files_below(folder_of(tier, LARGE)) == before
    allowed = tierfold("compact", tier, *ALWAYS, *TO_ALLOW, "--json")
    assert (allowed.code, allowed.outcomes["large", 0]) == (0, "compacted")
    assert verified(tier, *TO_ALLOW).code == 0
    assert "decompressed.batch.max.bytes" in verified(tier).partitions["large", 0]["reason"]
    lines = tierfold("history", tier, "large-0", "--json").entries[0]["history"]
    (found,) = (line for line in lines if line["event"] == "found")
    restored = tierfold("restore", tier, "large-0", "--to", found["committed_at"], "--json")
    assert (restored.code, restored.outcomes["large", 0]) == (0, "restored")


def test_a_reader_has_the_option_of_the_same_name() -> None:
    assert request_of({"path": "/tier"}).batch_bytes_max == 0
    given = request_of({"path": "/tier", "decompressed.batch.max.bytes": "7"})
    assert given.batch_bytes_max == 7
    for wrong in ("0", "x", str(2**31)):
        with pytest.raises(BadSettings, match=r"decompressed\.batch\.max\.bytes is") as caught:
            request_of({"path": "/tier", "decompressed.batch.max.bytes": wrong})
        assert caught.value.remedy == "Give a whole number from 1 to 2147483647."
