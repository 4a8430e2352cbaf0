"""The contract of every layout over every store: a test class inherits it and sets `tier`."""

from __future__ import annotations

import pickle
import re
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import google_crc32c
import pytest

from tests.storage.deleted_segments import delete_segment
from tests.storage.new_ids import own_address, own_id
from tierfold.compaction.discovery.listing import ListedSegment, corrupted_parts, stored_sizes
from tierfold.compaction.discovery.ownership import OF_PARTITION
from tierfold.compaction.model.errors import (
    BadSettings,
    CorruptLog,
    TierfoldError,
    UnreadableObject,
)
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.storage.tiers import remote_tier
from tierfold.storage.tiers.aiven.object_names import Suffix
from tierfold.storage.tiers.object_store import StoredChecksum
from tierfold.storage.tiers.remote_tier import (
    PARTS,
    Part,
    RemoteTier,
    SegmentAddress,
    address_of,
)

NOT_REQUIRED = Part.TRANSACTION_INDEX
TOPIC_ID = "EnvZlVwBRBCOjS6Uhrdc6w"
KEY = PartitionKey(topic="orders", partition=7, topic_id=TOPIC_ID)


class _Interrupted(Exception):
    pass


def content(part: Part) -> bytes:
    return f"the bytes of {part}".encode()


def described(address: SegmentAddress) -> Segment:
    """The metadata of a segment that consists of `content`."""
    return Segment(
        segment_id=address.segment_id,
        start_offset=address.start_offset,
        end_offset=address.start_offset + 9,
        size_bytes=len(content(Part.LOG)),
        offset_index_bytes=len(content(Part.OFFSET_INDEX)),
        time_index_bytes=len(content(Part.TIME_INDEX)),
        max_timestamp_ms=17,
        leader_epochs=(LeaderEpoch(epoch=3, start_offset=address.start_offset),),
        has_transaction_index=True,
        first_timestamp_ms=5,
    )


class RemoteTierContract:
    tier: RemoteTier
    """Without a segment."""
    objects: int
    """How many objects a segment has."""
    first_read: str
    """The suffix of the object that is read first."""
    no_tier_says: str
    """What the tier says of a place without one."""

    @abstractmethod
    def create_catalog(self) -> None:
        """Put something where the tier's catalog is."""

    @abstractmethod
    def no_tier(self) -> RemoteTier:
        """A tier opened where there is none, but something else."""

    def write(self, key: PartitionKey, start_offset: int, *parts: Part) -> SegmentAddress:
        staged = self.tier.new_segment(own_address(key, start_offset))
        for part in parts or PARTS:
            staged.put(part, content(part))
        if not parts:
            self.described = staged.finish(described(staged.address))
        return staged.address

    def partitions(self, count: int) -> list[PartitionKey]:
        return [
            PartitionKey(topic="t", partition=number, topic_id=TOPIC_ID) for number in range(count)
        ]

    def test_an_empty_tier_has_no_partitions(self) -> None:
        self.create_catalog()
        self.tier.check()
        assert self.tier.partitions() == ()
        assert self.tier.listing(KEY) == ()
        assert self.tier.incomplete_uploads([KEY]) == {KEY: ()}
        assert self.tier.incomplete_uploads([]) == {}

    def test_a_new_segment_is_complete_only_at_the_end(self) -> None:
        staged = self.tier.new_segment(own_address(KEY, 42))
        with staged.open_log() as log:
            log.write(b"bat")
            log.write(b"ches")
            assert self.tier.listing(KEY) == ()
        for part in PARTS[1:]:
            assert not self.tier.listing(KEY)[0].is_complete
            staged.put(part, str(part).encode())
        staged.finish(described(staged.address))
        (listed,) = self.tier.listing(KEY)
        assert listed.parts == tuple(sorted(staged.objects))
        assert len(staged.objects) == self.objects
        assert listed.is_complete
        assert (listed.segment_id, listed.start_offset) == (staged.address.segment_id, 42)
        assert address_of(KEY, listed) == staged.address
        assert self.tier.read_part(staged.address, Part.LOG).tobytes() == b"batches"
        assert self.tier.read_part(staged.address, Part.SNAPSHOT).tobytes() == b"snapshot"

    def test_a_part_is_read_in_ranges(self) -> None:
        address = self.write(KEY, 0)
        whole = content(Part.LOG)
        for start, length in ((0, 4), (4, 100), (len(whole), 1), (3, 0)):
            found = self.tier.read_range(address, Part.LOG, start, length)
            assert found.tobytes() == whole[start : start + length]

    def test_a_missing_part_is_named(self) -> None:
        address = SegmentAddress(KEY, "A" * 22, 0)
        for read in (
            lambda: self.tier.read_part(address, Part.LOG),
            lambda: self.tier.read_range(address, Part.LOG, 0, 1),
        ):
            with pytest.raises(UnreadableObject, match="it is not there") as caught:
                read()
            stem = self.tier.uri(address, Part.LOG).removesuffix("log")
            assert caught.value.where == stem + self.first_read

    def test_parts_out_of_order_are_refused(self) -> None:
        staged = self.tier.new_segment(own_address(KEY, 42))
        staged.put(Part.SNAPSHOT, b"x")
        with pytest.raises(ValueError, match=r"\.index must be written before \.snapshot"):
            staged.put(Part.OFFSET_INDEX, b"x")
        with pytest.raises(ValueError, match=r"\.log must be written before"), staged.open_log():
            pass

    def test_new_segments_have_different_names(self) -> None:
        for _ in range(2):
            self.write(KEY, 42, Part.LOG)
        assert len(self.tier.listing(KEY)) == 2

    def test_a_segment_whose_writer_fails_is_not_there(self) -> None:
        staged = self.tier.new_segment(own_address(KEY, 0))
        with pytest.raises(_Interrupted), staged.open_log() as log:
            log.write(b"half")
            raise _Interrupted
        assert self.tier.listing(KEY) == ()
        assert self.tier.incomplete_uploads([KEY]) == {KEY: ()}

    def test_partitions_and_their_listings_are_found_in_one_pass(self) -> None:
        keys = self.partitions(20)
        for number, key in enumerate(keys):
            self.write(key, number * 100)
            self.write(key, number * 100 + 50, Part.LOG)
        assert self.tier.partitions() == tuple(keys)
        for asked in (keys, keys[3:5], [*keys[:2], KEY]):
            found = self.tier.listings(asked)
            assert set(found) == set(asked)
            for key in asked:
                assert found[key] == self.tier.listing(key)
        assert self.tier.listing(KEY) == ()
        complete, partial = self.tier.listing(keys[2])
        assert (complete.start_offset, complete.is_complete) == (200, True)
        assert (partial.start_offset, partial.is_complete) == (250, False)
        assert self.tier.part_sizes(keys[2], complete) == {p: len(content(p)) for p in PARTS}

    def test_several_topics_are_listed_together(self) -> None:
        keys = [
            PartitionKey(topic=topic, partition=partition, topic_id=topic_id)
            for topic, topic_id in (("a", TOPIC_ID), ("a", "A" * 22), ("b-c", TOPIC_ID))
            for partition in (0, 3)
        ]
        for number, key in enumerate(keys):
            self.write(key, number)
        assert self.tier.partitions() == tuple(sorted(keys))
        found = self.tier.listings(keys)
        assert list(found) == keys
        assert [found[key] for key in keys] == [self.tier.listing(key) for key in keys]
        assert [self.tier.listing(key)[0].start_offset for key in keys] == [*range(len(keys))]

    def test_every_part_is_read_back(self) -> None:
        address = self.write(KEY, 0)
        for part in PARTS:
            assert self.tier.read_part(address, part).tobytes() == content(part)
            whole = self.tier.read_range(address, part, 0, 10**6)
            assert whole.tobytes() == content(part)
            assert self.tier.access(address, part).unit_bytes > 0

    def test_a_part_beside_the_log_is_read_up_to_a_size(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = self.write(KEY, 42)
        for part in PARTS[1:]:
            size_bytes = len(content(part))
            monkeypatch.setitem(remote_tier.PART_BYTES_MAX, part, size_bytes)
            assert self.tier.read_part(address, part).tobytes() == content(part)
            monkeypatch.setitem(remote_tier.PART_BYTES_MAX, part, size_bytes - 1)
            with pytest.raises(CorruptLog, match=rf"\.{part} has more than {size_bytes - 1} bytes"):
                self.tier.read_part(address, part)

    def test_a_listing_has_the_sizes_that_the_catalog_knows(self) -> None:
        address = self.write(KEY, 0)
        (listed,) = self.tier.listing(KEY)
        assert self.tier.with_stored_sizes(described(address), listed) == self.described
        assert corrupted_parts([self.described], [listed], kind="live segment") == ()
        sizes = stored_sizes(self.described)
        assert sizes.keys() <= dict(listed.parts).keys()
        for suffix, size_bytes in sizes.items():
            parts = tuple(sorted({**dict(listed.parts), suffix: size_bytes + 1}.items()))
            (found,) = corrupted_parts(
                [self.described], [replace(listed, parts=parts)], kind="live segment"
            )
            assert f"has a .{suffix} of {size_bytes + 1} bytes, the catalog says" in found

    def test_the_objects_of_a_segment_have_their_sizes(self) -> None:
        address = self.write(KEY, 0)
        (listed,) = self.tier.listing(KEY)
        objects = dict(self.tier.objects_of(KEY, listed))
        assert sum(objects.values()) == listed.size_bytes
        for part in PARTS:
            assert any(key in self.tier.uri(address, part) for key in objects)

    def test_a_deleted_segment_is_gone_and_an_interrupted_deletion_looks_incomplete(self) -> None:
        self.create_catalog()
        address, other = self.write(KEY, 0), self.write(KEY, 50)
        delete_segment(self.tier, address)
        delete_segment(self.tier, address)
        (left,) = self.tier.listing(KEY)
        assert address_of(KEY, left) == other
        delete_segment(self.tier, other)
        assert self.tier.listing(KEY) == ()
        # Its last segment is gone, and this is still a tier.
        self.tier.check()
        assert all(self.tier.listing(key) == () for key in self.tier.partitions())

    def copied(self, source: SegmentAddress, **changed: Any) -> Segment:
        """Copy a segment under a new id; return the metadata of the copy."""
        (listed,) = [one for one in self.tier.listing(KEY) if address_of(KEY, one) == source]
        new = replace(self.described, segment_id=own_id(), **changed)
        return self.tier.copy_segment(KEY, listed, new)

    @pytest.mark.parametrize("parts", [PARTS, tuple(p for p in PARTS if p is not NOT_REQUIRED)])
    def test_a_copied_segment_is_a_segment_of_its_own(self, parts: tuple[Part, ...]) -> None:
        source = self.write_all(42, parts)
        (before,) = self.tier.listing(KEY)
        copy = self.copied(source)
        assert copy == replace(self.described, segment_id=copy.segment_id)
        listed = {one.segment_id: one for one in self.tier.listing(KEY)}
        assert listed.pop(source.segment_id) == before
        (found,) = listed.values()
        assert found.is_complete
        assert address_of(KEY, found) == address_of(KEY, copy)
        assert corrupted_parts([copy], [found], kind="copy") == ()
        assert self.tier.ownership(KEY, found) == OF_PARTITION
        delete_segment(self.tier, source)
        assert set(self.tier.part_sizes(KEY, found)) == set(parts)
        for part in parts:
            assert self.tier.read_part(address_of(KEY, copy), part).tobytes() == content(part)

    def write_all(self, start_offset: int, parts: tuple[Part, ...]) -> SegmentAddress:
        staged = self.tier.new_segment(own_address(KEY, start_offset))
        for part in parts:
            staged.put(part, content(part))
        has_index = NOT_REQUIRED in parts
        metadata = replace(described(staged.address), has_transaction_index=has_index)
        self.described = staged.finish(metadata)
        return staged.address

    def test_a_copy_is_named_by_the_start_of_its_log(self) -> None:
        copy = self.copied(self.write(KEY, 42), start_offset=45, skipped_offsets=3)
        address = address_of(KEY, copy)
        assert address.start_offset == 42
        assert self.tier.read_part(address, Part.LOG).tobytes() == content(Part.LOG)

    def test_a_copy_takes_no_others_name(self) -> None:
        source, other = self.write(KEY, 42), self.write(KEY, 42)
        (listed,) = [one for one in self.tier.listing(KEY) if address_of(KEY, one) == source]
        before = self.tier.listing(KEY)
        with pytest.raises(UnreadableObject, match="the name is taken"):
            self.tier.copy_segment(
                KEY, listed, replace(self.described, segment_id=other.segment_id)
            )
        assert self.tier.listing(KEY) == before

    def test_an_object_that_is_not_as_listed_is_refused(self) -> None:
        self.write(KEY, 42)
        (listed,) = self.tier.listing(KEY)
        for suffix, size_bytes in listed.parts:
            if suffix == Suffix.MANIFEST:
                continue
            parts = {**dict(listed.parts), suffix: size_bytes + 1}
            other = replace(listed, parts=tuple(parts.items()))
            new = replace(self.described, segment_id=own_id())
            sizes = f"it was copied from an object of {size_bytes + 1} bytes, and has {size_bytes}"
            with pytest.raises(UnreadableObject, match=re.escape(sizes)):
                self.tier.copy_segment(KEY, other, new)

    def test_a_stored_checksum_is_right_or_missing(self) -> None:
        address = self.write(KEY, 0)
        for part in PARTS:
            data = content(part)
            expected = StoredChecksum(size_bytes=len(data), crc32c=google_crc32c.value(data))
            assert self.tier.stored_checksum(address, part) in (None, expected)

    def test_requests_are_counted_where_there_are_any(self) -> None:
        before = self.tier.requests()
        self.write(KEY, 0)
        self.tier.listing(KEY)
        after = self.tier.requests()
        assert (after - before).total in {0, self.objects + 1}

    def test_what_is_no_tier_is_refused_with_its_content(self) -> None:
        other = self.no_tier()
        for use in (other.check, other.partitions):
            with pytest.raises(BadSettings, match=f"{self.no_tier_says} in it, but things"):
                use()

    def test_no_partitions_name_leads_elsewhere(self) -> None:
        key = PartitionKey(topic="../x", partition=0, topic_id=TOPIC_ID)
        with pytest.raises(TierfoldError, match="the name leaves the tier"):
            self.tier.listing(key)

    def test_no_segments_name_leads_elsewhere(self) -> None:
        address = SegmentAddress(KEY, "../x", 0)
        elsewhere = ListedSegment(
            segment_id="../x",
            start_offset=0,
            parts=(("log", 1),),
            missing_parts=(),
            modified_ms=0,
        )
        for use in (
            lambda: self.tier.read_part(address, Part.LOG),
            lambda: self.tier.objects_of(KEY, elsewhere),
            lambda: self.tier.uri(address, Part.LOG),
        ):
            with pytest.raises(TierfoldError, match="the name leaves the partition's folder"):
                use()

    def test_it_travels_to_a_worker(self) -> None:
        self.write(KEY, 0)
        there = pickle.loads(pickle.dumps(self.tier))  # noqa: S301
        assert there == self.tier
        assert there.listing(KEY) == self.tier.listing(KEY)
