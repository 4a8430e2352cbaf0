"""Copies a segment within the tier under a new id, and verifies every part of the copy.

Readers ignore the copy until the catalog names it. Each part is compared with the source's: by what
the store says of both, if it has checksums of whole objects, else by reading both. As for a new
segment, what is stored encoded is read and decoded.
"""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.commits.receipts import VerifiedParts
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.segments import PartitionKey, Segment
from tierfold.storage.segments.segment_writer import read_back
from tierfold.storage.tiers.object_store import not_as_written
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, SegmentAddress, address_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedSegment:
    """A copy, all of whose parts have the bytes of their sources."""

    segment: Segment
    """Its metadata."""
    objects: int
    """How many it has."""
    stored_bytes: int
    """Bytes of all its objects."""
    verified: VerifiedParts


def copied_segment(
    tier: RemoteTier, key: PartitionKey, listed: ListedSegment, copy: Segment
) -> CopiedSegment:
    """Copy a complete segment, `listed`, and verify it; `copy` is the metadata of the copy.

    Raises UnreadableObject, also if a part differs, and CorruptLog if one cannot be decoded.
    """
    segment = tier.copy_segment(key, listed, copy)
    addresses = address_of(key, listed), address_of(key, segment)
    sizes = tier.part_sizes(key, listed)
    verified = (_verified(tier, addresses, part, size) for part, size in sizes.items())
    return CopiedSegment(
        segment=segment,
        objects=len(listed.parts),
        stored_bytes=listed.size_bytes,
        verified=sum(verified, VerifiedParts()),
    )


def _verified(
    tier: RemoteTier, addresses: tuple[SegmentAddress, SegmentAddress], part: Part, size_bytes: int
) -> VerifiedParts:
    """How a part of the copy, the second address, was compared with its source, the first one.

    Checksums that differ are no proof: some stores compute wrong ones.
    """
    stated = {tier.stored_checksum(address, part) for address in addresses}
    if len(stated) == 1 and None not in stated:
        return VerifiedParts(by_checksum=1)
    source, copy = (read_back(tier, address, part, size_bytes) for address in addresses)
    if source != copy:
        raise not_as_written(
            f"its source has {source.size_bytes} bytes with CRC32C {source.crc32c:08x},"
            f" {copy.size_bytes} bytes with {copy.crc32c:08x} are read back",
            tier.uri(addresses[1], part),
        )
    return VerifiedParts(by_reading_back=1)
