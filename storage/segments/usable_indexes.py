"""Reads what can be used of a segment's offset and time index: both only save reading its log."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tierfold.storage.indexes.offset_index import OffsetIndex, usable_offset_index
from tierfold.storage.indexes.time_index import TimeIndex, usable_time_index
from tierfold.storage.tiers.remote_tier import LargePart, Part, RemoteTier, SegmentAddress


def usable_offsets(tier: RemoteTier, address: SegmentAddress) -> tuple[OffsetIndex, str]:
    """The entries that can be used, and what is wrong with the index, a phrase; empty: nothing is.

    Raises UnreadableObject, and CorruptLog if the object cannot be decoded.
    """
    data, too_large = _read(tier, address, Part.OFFSET_INDEX)
    where = tier.uri(address, Part.OFFSET_INDEX)
    index, corruption = usable_offset_index(data, address.start_offset, where)
    return index, too_large or corruption


def usable_times(tier: RemoteTier, address: SegmentAddress) -> tuple[TimeIndex, str]:
    """As `usable_offsets`, of the time index."""
    data, too_large = _read(tier, address, Part.TIME_INDEX)
    where = tier.uri(address, Part.TIME_INDEX)
    index, corruption = usable_time_index(data, address.start_offset, where)
    return index, too_large or corruption


def _read(
    tier: RemoteTier, address: SegmentAddress, part: Part
) -> tuple[NDArray[np.uint8], str]:
    """A whole index, and an empty string; one that is too large counts as empty, and why."""
    try:
        return tier.read_part(address, part), ""
    except LargePart as error:
        return np.empty(0, np.uint8), error.what
