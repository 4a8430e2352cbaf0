"""Deletes a segment as `vacuum` does: the objects of its listing, in the layout's order."""

from __future__ import annotations

from tierfold.storage.tiers.remote_tier import RemoteTier, SegmentAddress, address_of


def delete_segment(tier: RemoteTier, address: SegmentAddress) -> None:
    """Delete the segment's objects, if it is listed."""
    for listed in tier.listing(address.key):
        if address_of(address.key, listed) == address:
            for object_key, _ in tier.objects_of(address.key, listed):
                tier.delete(object_key)
