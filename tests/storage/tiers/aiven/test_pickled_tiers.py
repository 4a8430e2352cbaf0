"""A tier travels to workers without a key."""

from __future__ import annotations

import pickle
from pathlib import Path

from tests.storage.live_segments import KEY
from tests.storage.tiers.aiven.test_aiven_segments import a_tier, uploaded
from tierfold.storage.segments.segment_inspection import inspected
from tierfold.storage.tiers.remote_tier import address_of


def test_no_key_travels_with_the_tier(tmp_path: Path) -> None:
    tier = a_tier("both", tmp_path)
    first, _ = uploaded(tier)
    data_key = tier._read(address_of(KEY, first)).transform.data_key
    assert data_key is not None
    travels = pickle.dumps(tier)
    for secret in (data_key.key, data_key.aad, b"PRIVATE", b"RsaKey"):
        assert secret not in travels
        assert str(secret) not in repr(tier)
    there = pickle.loads(travels)  # noqa: S301
    assert there == tier
    assert inspected(there, KEY, there.listing(KEY)[0]).segment == first
