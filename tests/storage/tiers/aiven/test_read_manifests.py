"""Which manifests are read, and how many at a time."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.storage.live_segments import KEY
from tests.storage.tiers.aiven.test_aiven_segments import (
    a_tier,
    as_found,
    manifest_of,
    rewrite_object,
    uploaded,
)
from tierfold.storage.segments.segment_inspection import inspected
from tierfold.storage.tiers.aiven import aiven_tier
from tierfold.storage.tiers.aiven.manifest import Manifest, read_manifest
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.object_store import Bytes


@pytest.mark.parametrize("how", ["plain", "both"])
def test_nothing_but_the_manifest_of_a_foreign_segment_is_read(tmp_path: Path, how: str) -> None:
    tier = a_tier(how, tmp_path)
    first, _ = uploaded(tier)
    manifest = manifest_of(tier, first)
    del manifest["remoteLogSegmentMetadata"]
    rewrite_object(tier, first, Suffix.MANIFEST, json.dumps(manifest).encode())
    (listed,) = [one for one in tier.listing(KEY) if one.segment_id == first.segment_id]
    before = tier.requests()
    found = inspected(as_found(tier), KEY, listed)
    assert (found.is_doubtful, found.checkpoint, found.segment) == (True, (), None)
    assert tier.requests().gets - before.gets == 1


def test_one_manifest_is_parsed_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = a_tier("plain", tmp_path)
    uploaded(tier)
    at_once: list[int] = []
    running = threading.Semaphore(8)

    def slowly(data: Bytes, where: str) -> Manifest:
        with running:
            at_once.append(running._value)
            time.sleep(0.05)
            return read_manifest(data, where)

    monkeypatch.setattr(aiven_tier, "read_manifest", slowly)
    opened = as_found(tier)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda listed: opened.part_sizes(KEY, listed), tier.listing(KEY)))
    assert at_once == [7, 7]
