"""Forty seeds reach every feature; a seed always gives the same options."""

from __future__ import annotations

from tests.oracle.recipes import (
    LEGACY_FROM,
    RECORDS_MAX,
    features,
    recipe,
    uploads_below_stable,
)

EVERY_FEATURE = {
    *(f"codec {name}" for name in ("none", "gzip", "snappy", "lz4", "zstd")),
    *("ts_type CreateTime", "ts_type LogAppendTime", "key_kind text", "key_kind binary"),
    *(f"segment_bytes {size}" for size in ("12k", "30k", "80k", "300k")),
    *("txn_version 0", "txn_version 2", "open_txn", "idem", "mixed codecs", "tombstones"),
    *("null_keys", "empty_batches", "ts_jitter", "headers", "epochs"),
    *("ts_none", "ends near the first pass"),
}


def test_forty_seeds_reach_every_feature() -> None:
    reached = [features(recipe(seed)) for seed in range(40)]
    counts = {name: sum(name in one for one in reached) for name in sorted(EVERY_FEATURE)}
    assert set().union(*reached) == EVERY_FEATURE
    assert min(counts.values()) >= 3, counts


def test_fifteen_legacy_seeds_reach_every_magic_codec_and_shape() -> None:
    options = [recipe(seed) for seed in range(LEGACY_FROM, LEGACY_FROM + 15)]
    assert {one["magic"] for one in options} == {"0", "1", "0,1", "1,2", "0,1,2"}
    codecs = [codec for one in options for codec in str(one["codec"]).split(",")]
    assert min(codecs.count(name) for name in ("none", "gzip", "snappy", "lz4")) >= 3
    for name in ("legacy_holes", "null_keys", "idem", "txn"):
        assert {bool(one[name]) for one in options} == {True, False}
    assert {one["ts_type"] for one in options} == {"CreateTime", "LogAppendTime"}


def test_some_seeds_upload_undecided_transactions_and_others_do_not() -> None:
    both = {uploads_below_stable(seed) for seed in range(40) if "open_txn" in recipe(seed)}
    assert both == {True, False}


def test_a_seed_always_gives_the_same_options() -> None:
    assert [recipe(seed) for seed in range(9)] == [recipe(seed) for seed in range(9)]
    assert len({str(recipe(seed)) for seed in range(40)}) == 40
    assert all(int(recipe(seed)["records"]) <= RECORDS_MAX for seed in range(40))
