"""Names of objects in the layout of Aiven's plugin.

    <key prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>.<suffix>

The prefix comes first as it is, without a slash of its own.
Rule: Aiven's plugin, `ObjectKeyFactory`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tierfold.compaction.model.errors import BadSettings
from tierfold.compaction.model.segment_ids import KAFKA_UUID_PATTERN, is_kafka_uuid
from tierfold.compaction.model.segments import PartitionKey
from tierfold.storage.kafka.topic_names import TOPIC_PATTERN, is_topic
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER, SegmentAddress, leaves
from tierfold.storage.tiers.segment_names import SegmentNames, object_name


class Suffix(StrEnum):
    """The objects of a segment, in the order in which they are written.

    The manifest comes last, so a segment whose writing was interrupted is never complete.
    """

    LOG = "log"
    INDEXES = "indexes"
    MANIFEST = "rsm-manifest"


_PARTITION_MAX: Final = 2**31 - 1
_TOPIC: Final = re.compile(rf"({TOPIC_PATTERN})-({KAFKA_UUID_PATTERN})")
_PARTITION: Final = re.compile(r"0|[1-9][0-9]{0,9}")
NAMES: Final = SegmentNames(suffixes=tuple(Suffix), required=tuple(Suffix))
"""The names of its objects: a complete segment has all three."""

_PREFIX_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._=+@,~/-]*")


def check_prefix(prefix: str) -> None:
    """Raise BadSettings if the store could not hold keys with that prefix, or would change them."""
    folders = prefix.split("/")[:-1]
    if _PREFIX_CHARACTERS.fullmatch(prefix) and not {"", ".", ".."} & set(folders):
        return
    raise BadSettings(
        f"the key prefix {prefix!r} begins with a slash, has an empty part, or a character that is"
        " not allowed",
        where="--key-prefix",
        remedy="Write key.prefix of the brokers: letters, digits and - _ . = + @ , ~ between single"
        " slashes.",
    )


@dataclass(frozen=True, slots=True)
class ObjectNames:
    """The names below one key prefix."""

    prefix: str

    @property
    def top_folder(self) -> str:
        """The folder of the topics' folders; empty: the tier's own."""
        return self.prefix.rpartition("/")[0]

    @property
    def catalog_folder(self) -> str:
        """The catalog's name in the folder of the topics, unless --catalog names another place."""
        return self.prefix.rpartition("/")[2] + CATALOG_FOLDER

    def topic_of(self, folder: str) -> tuple[str, str] | None:
        """Topic and topic id of a folder in `top_folder`; None: it is no topic's."""
        begin = self.prefix.rpartition("/")[2]
        found = _TOPIC.fullmatch(folder.removeprefix(begin)) if folder.startswith(begin) else None
        return (found[1], found[2]) if found and is_topic(found[1]) else None

    def topic_folder(self, topic: str, topic_id: str) -> str:
        """The key of a topic's folder; raises UnreadableObject if it is not inside the tier.

        Names are checked when they are read; this is the last check, so that no name leads to
        another partition's objects.
        """
        folder = f"{self.prefix}{topic}-{topic_id}"
        if not is_topic(topic) or not is_kafka_uuid(topic_id):
            raise leaves(folder, "tier")
        return folder

    def partition_folder(self, key: PartitionKey) -> str:
        """The key of a partition's folder; raises UnreadableObject as `topic_folder` does."""
        return f"{self.topic_folder(key.topic, key.topic_id)}/{key.partition}"

    def object_key(self, address: SegmentAddress, suffix: Suffix) -> str:
        """An object's key in the store; raises UnreadableObject as `topic_folder` does."""
        found = f"{self.partition_folder(address.key)}/{object_name(address, suffix.value)}"
        if not is_kafka_uuid(address.segment_id):
            raise leaves(found, "partition's folder")
        return found


def partition_of(folder: str) -> int | None:
    """The partition of a folder in a topic's folder; None: it is no partition's."""
    is_number = _PARTITION.fullmatch(folder) is not None
    return int(folder) if is_number and int(folder) <= _PARTITION_MAX else None
