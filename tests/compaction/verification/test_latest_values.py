"""The latest value of each key is the same for any split into windows, segments or buckets."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from tests.compaction.hash_keys import HASH_KEY
from tests.compaction.latest_windows import fields, window
from tierfold.compaction.verification.latest_values import (
    NO_VALUE,
    LatestValues,
    deserialize_latest,
    in_buckets,
    latest_of,
    serialize_latest,
)
from tierfold.compaction.verification.value_digest import digests

keys = st.binary(max_size=3) | st.binary(min_size=8, max_size=20)
values = st.none() | st.binary(max_size=20)
records = st.lists(st.tuples(keys, values), max_size=40)
versions = st.none() | st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
versioned = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"a longer key"]), values, versions), max_size=12
)


def sent(latest: LatestValues) -> LatestValues:
    """What another worker gets of it."""
    return deserialize_latest(serialize_latest(latest, HASH_KEY))



def by_key(latest: LatestValues) -> dict[bytes, tuple[int, int, tuple[int, ...]]]:
    """By key: offset, value bytes, digest; each key once."""
    found = {}
    for i, at in enumerate(latest.keys.key_at):
        key = latest.keys.keys[at : at + latest.keys.key_bytes[i]].tobytes()
        digest = tuple(latest.digest[i].tolist())
        found[key] = (int(latest.offset[i]), int(latest.value_bytes[i]), digest)
    assert len(found) == len(latest)
    return found


def model(
    pairs: list[tuple[bytes, bytes | None]], first_offset: int = 0
) -> dict[bytes, tuple[int, int, tuple[int, ...]]]:
    """A dictionary by key: the later entry stays."""
    latest = {key: (offset, value) for offset, (key, value) in enumerate(pairs, first_offset)}
    return {
        key: (
            offset,
            NO_VALUE if value is None else len(value),
            (0, 0) if value is None else digest_of(value),
        )
        for key, (offset, value) in latest.items()
    }


def model_of_versions(
    pieces: list[list[tuple[bytes, bytes | None, int | None]]],
) -> dict[bytes, tuple[int, int, tuple[int, ...]]]:
    """A dictionary by key: the highest version stays, any before none, then the highest offset."""
    best: dict[bytes, tuple[bool, int, int, bytes | None]] = {}
    for offset, (key, value, version) in enumerate(record for piece in pieces for record in piece):
        rank = (version is not None, version or 0, offset, value)
        best[key] = max(rank, best.get(key, rank), key=lambda entry: entry[:3])
    found = sorted((offset, key, value) for key, (_, _, offset, value) in best.items())
    return {key: model([(key, value)], offset)[key] for offset, key, value in found}


def digest_of(value: bytes) -> tuple[int, ...]:
    body, where = fields([value])
    return tuple(digests(body, where.at, where.size_bytes)[0].tolist())


@given(records)
def test_a_window_keeps_the_last_of_each_key(pairs: list[tuple[bytes, bytes | None]]) -> None:
    assert by_key(window(pairs)) == model(pairs)


@given(records, st.integers(0, 5))
def test_records_that_are_not_chosen_do_not_count(
    pairs: list[tuple[bytes, bytes | None]], skipped: int
) -> None:
    assert by_key(window(pairs, skipped=skipped)) == model(pairs[: max(0, len(pairs) - skipped)])


@given(st.lists(records, max_size=4))
def test_later_pieces_win(pieces: list[list[tuple[bytes, bytes | None]]]) -> None:
    starts = [0, *accumulate(len(piece) for piece in pieces)]
    windows = [window(piece, start) for piece, start in zip(pieces, starts, strict=False)]
    assert by_key(latest_of(windows)) == model([pair for piece in pieces for pair in piece])


@given(st.lists(versioned, max_size=4), st.integers(1, 3))
def test_versions_decide_over_windows_segments_and_buckets(
    pieces: list[list[tuple[bytes, bytes | None, int | None]]], buckets: int
) -> None:
    starts = [0, *accumulate(len(piece) for piece in pieces)]
    windows = [
        window([entry[:2] for entry in piece], start, versions=[entry[2] for entry in piece])
        for piece, start in zip(pieces, starts, strict=False)
    ]
    parted = [block for window in windows for block in in_buckets(window, buckets)]
    found = [
        latest_of(
            [sent(block) for of, block in parted if of == bucket]
        )
        for bucket in range(buckets)
    ]
    expected = model_of_versions(pieces)
    assert {key: entry for latest in found for key, entry in by_key(latest).items()} == expected


@given(records, st.integers(1, 5))
def test_each_key_is_in_one_bucket(pairs: list[tuple[bytes, bytes | None]], buckets: int) -> None:
    blocks = list(in_buckets(window(pairs), buckets))
    assert all(0 <= bucket < buckets and len(block) for bucket, block in blocks)
    parts = [by_key(block) for _, block in blocks]
    assert sum(len(part) for part in parts) == len(model(pairs))
    assert {key: entry for part in parts for key, entry in part.items()} == model(pairs)


@given(records, records, st.integers(2, 5))
def test_a_key_is_always_in_the_same_bucket(
    one: list[tuple[bytes, bytes | None]], other: list[tuple[bytes, bytes | None]], buckets: int
) -> None:
    place = {key: b for b, block in in_buckets(window(one), buckets) for key in by_key(block)}
    for bucket, block in in_buckets(window(other), buckets):
        assert all(place.get(key, bucket) == bucket for key in by_key(block))


@given(records)
def test_a_serialized_block_is_read_back_unchanged(pairs: list[tuple[bytes, bytes | None]]) -> None:
    assert by_key(sent(window(pairs))) == model(pairs)
    assert by_key(latest_of([sent(window(pairs))])) == model(pairs)
