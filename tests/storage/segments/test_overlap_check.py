"""The overlap check compares the batches of overlapping uploads by their bytes.

    live    0 ───── 10
    upload       8 ──[11 ──── 15]      8 to 10 are compared; it counts from 11 on
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import (
    KEY,
    NOW_MS,
    a_tier,
    data,
    flip_bit,
    part_file,
    put_segment,
)
from tests.storage.scripted_store import ScriptedStore
from tierfold.compaction.discovery.overlaps import Cut, OverlapProof, chain_of, comparisons
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.origins import Compacted
from tierfold.compaction.model.segments import Segment
from tierfold.storage.kafka.batch_draft import BatchDraft, write_batch
from tierfold.storage.segments.overlap_check import prove_overlaps
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage
from tierfold.storage.tiers.remote_tier import Part

Batches = Sequence[BatchDraft | bytes]


def lone(*offsets: int, value: bytes = b"v") -> list[BatchDraft]:
    """A batch for each offset."""
    return [data(offset, (b"k", value)) for offset in offsets]


def put(tier: LocalTieredStorage, batches: Batches, start: int, end: int) -> Segment:
    return put_segment(tier, batches, offsets=(start, end))


def proof(
    tier: LocalTieredStorage, live: Sequence[Segment], *found: Segment, reached: int | None = None
) -> OverlapProof:
    """The proof for taking `found` beyond the live segments."""
    chain = chain_of(live[-1].end_offset if reached is None else reached, found)
    return prove_overlaps(tier, KEY, chain, comparisons(live, chain))


def test_the_same_batches_agree_and_the_cut_is_where_the_effective_start_is(
    tier: LocalTieredStorage,
) -> None:
    live = put(tier, lone(*range(11)), 0, 10)
    batches = lone(*range(8, 16))
    new = put(tier, batches, 8, 15)
    skipped = sum(len(write_batch(batch)) for batch in batches[:3])
    assert proof(tier, [live], new) == OverlapProof(
        cuts={new.segment_id: Cut(skipped_bytes=skipped, first_timestamp_ms=NOW_MS + 11)}
    )


def test_the_live_segments_may_end_in_a_gap_of_both(tier: LocalTieredStorage) -> None:
    # 10 was compacted away in both; the upload's next batch is 12.
    live = put(tier, lone(*range(10)), 0, 10)
    new = put(tier, lone(8, 9, 12, 13), 8, 13)
    found = proof(tier, [live], new)
    assert found.disagreements == ()
    assert found.cuts[new.segment_id].first_timestamp_ms == NOW_MS + 12


@pytest.mark.parametrize(
    ("overlap", "from_offset"),
    [
        (lone(8, value=b"w") + lone(9, 10), 8),
        (lone(8, 9) + lone(10, value=b"w"), 10),
        (lone(8, 10), 9),
        (lone(8, 9), 10),
        (lone(9, 10), 8),
        # The same records in other batches: another base offset, another last offset.
        ([data(8, (b"k", b"v"), (b"k", b"v")), *lone(10)], 8),
        ([*lone(8), data(9, (b"k", b"v"), (b"k", b"v"))], 9),
        ([], 8),
    ],
)
def test_other_batches_in_the_shared_stretch_disagree(
    tier: LocalTieredStorage, overlap: list[BatchDraft], from_offset: int
) -> None:
    live = put(tier, lone(*range(11)), 0, 10)
    new = put(tier, overlap + lone(*range(11, 16)), 8, 15)
    assert proof(tier, [live], new).disagreements == (
        f"segments {live.segment_id} and {new.segment_id} share offsets 8 to 10 and hold other"
        f" batches there, from offset {from_offset} on",
    )


def test_a_base_offset_that_no_checksum_covers_is_compared(tier: LocalTieredStorage) -> None:
    # Kafka's CRC begins behind the base offset. 8-10 of the upload are 7-9's batches, moved by one.
    moved = [
        (8 + i).to_bytes(8, "big") + write_batch(each)[8:] for i, each in enumerate(lone(7, 8, 9))
    ]
    live = put(tier, lone(*range(11)), 0, 10)
    stretched = replace(live, end_offset=9)
    new = put(tier, [*moved, *lone(*range(11, 16))], 8, 15)
    assert proof(tier, [live], new).disagreements
    assert proof(tier, [stretched], new, reached=9).disagreements


def test_a_superseded_upload_is_compared(tier: LocalTieredStorage) -> None:
    live = put(tier, lone(*range(11)), 0, 10)
    new = put(tier, lone(*range(11, 21)), 11, 20)
    same = put(tier, lone(*range(13, 16)), 13, 15)
    other = put(tier, lone(*range(13, 16), value=b"w"), 13, 15)
    assert proof(tier, [live], new, same).disagreements == ()
    (found,) = proof(tier, [live], new, same, other).disagreements[:1]
    assert other.segment_id in found


def test_a_batch_that_straddles_the_effective_start_is_refused(tier: LocalTieredStorage) -> None:
    # A run of ours wrote the live one: there is nothing to compare, and the cut is impossible.
    ours = replace(put(tier, lone(*range(11)), 0, 10), origin=Compacted("earlier"))
    pair = data(10, (b"k", b"v"), (b"k", b"v"))
    new = put(tier, [*lone(8, 9), pair, *lone(12)], 8, 12)
    assert proof(tier, [ours], new).disagreements == (
        f"segment {new.segment_id} counts from offset 11 on, and its batch of offsets 10 to 11"
        " straddles it",
    )


LEGACY = [message(8, b"v"), message(9, b"v"), message(10, b"v")]


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_wrappers_are_compared_and_cut_by_what_is_inside(
    tier: LocalTieredStorage, magic: int
) -> None:
    absolute = {8: range(8, 11), 11: range(11, 16), 9: range(9, 12)}

    def wrapped(first: int, value: bytes = b"v") -> bytes:
        # Magic 1 counts from the wrapper's first message on, magic 0 is absolute.
        offsets = absolute[first]
        inner = b"".join(
            message(offset if magic == 0 else i, value, magic=magic)
            for i, offset in enumerate(offsets)
        )
        return wrapper(offsets[-1], inner, magic=magic)

    live = put(tier, [*lone(0), wrapped(8)], 0, 10)
    same = put(tier, [wrapped(8), wrapped(11)], 8, 15)
    found = proof(tier, [live], same)
    assert found.disagreements == ()
    assert found.cuts[same.segment_id].skipped_bytes == len(wrapped(8))
    other = put(tier, [wrapped(8, b"w"), wrapped(11)], 8, 15)
    assert "from offset 8 on" in proof(tier, [live], other).disagreements[0]
    ours = replace(live, origin=Compacted("earlier"))
    straddling = put(tier, [message(8, b"v"), wrapped(9)], 8, 11)
    (found_there,) = proof(tier, [ours], straddling).disagreements
    assert "its batch of offsets 9 to 11 straddles" in found_there


def test_the_same_legacy_messages_agree(tier: LocalTieredStorage) -> None:
    live = put(tier, [*lone(0), *LEGACY], 0, 10)
    new = put(tier, [*LEGACY, *lone(11)], 8, 11)
    assert proof(tier, [live], new).disagreements == ()


def test_a_corrupt_log_is_no_proof(tier: LocalTieredStorage) -> None:
    live = put(tier, lone(*range(11)), 0, 10)
    new = put(tier, lone(*range(8, 16)), 8, 15)
    flip_bit(part_file(tier, live, Part.LOG))
    with pytest.raises(CorruptLog, match="bad CRC"):
        proof(tier, [live], new)


def test_nothing_is_read_where_nothing_overlaps(tmp_path: Path) -> None:
    tier = a_tier(tmp_path)
    live = put(tier, lone(*range(11)), 0, 10)
    new = put(tier, lone(*range(11, 16)), 11, 15)
    store = ScriptedStore(tmp_path)
    assert proof(LocalTieredStorage(store), [live], new) == OverlapProof(cuts={})
    assert store.of_part(Part.LOG) == 0


def test_each_overlapping_log_is_read_once(tmp_path: Path) -> None:
    tier = a_tier(tmp_path)
    live = [put(tier, lone(*range(5)), 0, 4), put(tier, lone(*range(5, 11)), 5, 10)]
    found = [put(tier, lone(*range(3, 16)), 3, 15), put(tier, lone(*range(8, 20)), 8, 19)]
    store = ScriptedStore(tmp_path)
    assert proof(LocalTieredStorage(store), live, *found).disagreements == ()
    assert store.of_part(Part.LOG) == sum(segment.size_bytes for segment in (*live, *found))


def test_a_cut_of_a_segment_that_was_cut_before_is_compared_by_its_own_range(
    tier: LocalTieredStorage,
) -> None:
    # The live one counts from 5 on; its .log begins at 3, and so does what is compared.
    cut = replace(put(tier, lone(*range(3, 11)), 3, 10), start_offset=5, skipped_offsets=2)
    new = put(tier, lone(4, *range(5, 14)), 4, 13)
    other = put(tier, lone(4, value=b"w") + lone(*range(5, 14)), 4, 13)
    assert proof(tier, [cut], new).disagreements == ()
    assert "share offsets 4 to 10" in proof(tier, [cut], other).disagreements[0]


def test_of_a_cut_segment_only_a_hole_may_count(tier: LocalTieredStorage) -> None:
    # The second ends at 14 by its manifest, and its last batch is below the effective start.
    live = put(tier, lone(0, 1, 2, 3), 0, 9)
    cut = put(tier, lone(2, 3), 2, 14)
    chain = chain_of(9, [cut])
    found = prove_overlaps(tier, KEY, chain, comparisons([live], chain))
    assert found.disagreements == ()
    assert found.cuts[cut.segment_id] == Cut(skipped_bytes=cut.log_bytes, first_timestamp_ms=-1)
