"""Whose a segment is by its manifest: `remoteLogSegmentMetadata`, which may be missing.

Brokers do not read it back. tierfold does, because key prefixes may overlap: with the prefix `a`,
the topics of a cluster with the prefix `a-` seem to be this one's.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from tierfold.compaction.discovery.ownership import OF_PARTITION, Ownership, anothers, doubtful
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.segments import Segment
from tierfold.storage.tiers.remote_tier import SegmentAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose objects they are, as far as a manifest says; None: it does not."""

    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    segment_id: str | None = None
    start_offset: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether it says all of it."""
        return None not in astuple(self)

    def check(self, address: SegmentAddress, where: str) -> None:
        """Raise UnreadableObject if the manifest `where` names another segment than its key does.

        A topic of a longer prefix is one: with `a`, the topics of `a-` seem to be `-…`. Its
        brokers, and tierfold with their prefix, use the same objects under another name.
        """
        if found := self.differences(address):
            raise UnreadableObject(
                "; ".join(found),
                where=where,
                remedy="If the brokers of this topic have another key.prefix, give theirs:"
                " --key-prefix PREFIX. Otherwise restore the segment's objects from a copy.",
            )

    def ownership(self, address: SegmentAddress, where: str) -> Ownership:
        """Whose a segment is that no row names."""
        try:
            self.check(address, where)
        except UnreadableObject as error:
            return anothers(str(error))
        return OF_PARTITION if self.is_known else doubtful(
            f"the manifest {where} does not say whose it is (remoteLogSegmentMetadata), and the"
            " catalog does not name it, so it may be another cluster's, whose key.prefix is longer:"
            " it is neither read nor deleted. If its topic is that cluster's, leave it out or give"
            " that cluster's --key-prefix; if it is yours, let its broker upload it again",
            is_silent=True,
        )

    def differences(self, address: SegmentAddress) -> tuple[str, ...]:
        """How it differs from the objects' own names, a phrase each."""
        key = address.key
        pairs = (
            ("topic", self.topic, key.topic),
            ("topic id", self.topic_id, key.topic_id),
            ("partition", self.partition, key.partition),
            ("segment", self.segment_id, address.segment_id),
            ("start offset", self.start_offset, address.start_offset),
        )
        return tuple(
            f"its manifest names {what} {_shown(said)}, and its key {what} {_shown(named)}"
            for what, said, named in pairs
            if said is not None and said != named
        )


def owner_in(metadata: object) -> Owner:
    """Whose objects they are by the metadata, which may be anything."""
    of_partition = ("remoteLogSegmentId", "topicIdPartition")
    of_topic = (*of_partition, "topicPartition")
    return Owner(
        topic=_text(metadata, *of_topic, "topic"),
        topic_id=_text(metadata, *of_partition, "topicId"),
        partition=_number(metadata, *of_topic, "partition"),
        segment_id=_text(metadata, "remoteLogSegmentId", "id"),
        start_offset=_number(metadata, "startOffset"),
    )


def end_in(metadata: object) -> int | None:
    """The segment's last offset by the metadata, which may be anything; None: it does not say."""
    return _number(metadata, "endOffset")


def _at(metadata: object, *names: str) -> object:
    found = metadata
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _text(metadata: object, *names: str) -> str | None:
    found = _at(metadata, *names)
    return found if isinstance(found, str) else None


def _number(metadata: object, *names: str) -> int | None:
    found = _at(metadata, *names)
    return found if type(found) is int else None


def _shown(named: str | int | None) -> str:
    return repr(named[:249] if isinstance(named, str) else named)


def copied_metadata(
    found: object, address: SegmentAddress, copy: Segment, event_ms: int
) -> dict[str, Any]:
    """Those of a copy: its source's, with its own id, if they say whose that is; else new ones.

    Only the source's have the leader epochs of offsets below the effective start.
    """
    new = metadata_of(address, copy, event_ms)
    if not isinstance(found, dict) or not owner_in(found).is_known:
        return new
    own = ("remoteLogSegmentId", "brokerId", "eventTimestampMs")
    return {**found, **{name: new[name] for name in own}}


def metadata_of(address: SegmentAddress, segment: Segment, event_ms: int) -> dict[str, Any]:
    """Kafka's `RemoteLogSegmentMetadata`; brokers do not read it back, people and tools do.

    No broker wrote the segment: its id is −1. The start is that of the `.log`, as in its key.
    """
    key = address.key
    epochs = sorted(segment.leader_epochs, key=lambda entry: entry.epoch)
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": key.topic_id,
                "topicPartition": {"topic": key.topic, "partition": key.partition},
            },
            "id": address.segment_id,
        },
        "startOffset": address.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": -1,
        "eventTimestampMs": event_ms,
        "segmentLeaderEpochs": {str(entry.epoch): entry.start_offset for entry in epochs},
        "txnIdxEmpty": not segment.has_transaction_index,
    }
