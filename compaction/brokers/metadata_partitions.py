"""Which partition of `__remote_log_metadata` holds the events of a user partition.

Rule: Kafka 4.4 `RemoteLogMetadataTopicPartitioner`, with `Utils.murmur2` and `Objects.hash`.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from struct import Struct
from typing import Final

from tierfold.compaction.model.segments import PartitionKey

_LONGS: Final = Struct(">QQ")
_MASK: Final = 2**32 - 1
_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995


def metadata_partition(key: PartitionKey, partition_count: int) -> int:
    """The metadata partition of a user partition; `partition_count` is the metadata topic's."""
    most, least = _LONGS.unpack(urlsafe_b64decode(f"{key.topic_id}=="))
    number = 1
    for part in (least ^ least >> 32, most ^ most >> 32, key.partition):
        number = 31 * number + part & _MASK
    return (_murmur2(number) & 0x7FFFFFFF) % partition_count


def _murmur2(number: int) -> int:
    """The hash of a uint32's four bytes, the highest first."""
    part = int.from_bytes(number.to_bytes(4, "big"), "little") * _MULTIPLIER & _MASK
    part = (part ^ part >> 24) * _MULTIPLIER & _MASK
    mixed = (_SEED ^ 4) * _MULTIPLIER & _MASK ^ part
    mixed = (mixed ^ mixed >> 13) * _MULTIPLIER & _MASK
    return mixed ^ mixed >> 15
