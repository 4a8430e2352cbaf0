"""What is wrong: a finding has a code, says how bad it is, and what leads out.

Where other verbs already refuse for the same thing, the finding has the refusal's code. Each code
has a paragraph in docs/doctor.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tierfold.compaction.brokers.preconditions import PreconditionCode
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey


class Severity(StrEnum):
    """How bad it is, the worst first."""

    LOSES_DATA = "loses data"
    LEAKS = "leaks"
    """Objects are paid for, and nothing will ever delete them."""
    HINDERS = "hinders"
    """Brokers or tierfold cannot do something, and nothing is lost."""
    NOTE = "note"


NEEDS_A_PERSON: Final = frozenset({Severity.LOSES_DATA, Severity.LEAKS})


class FindingCode(StrEnum):
    """What no refusal has a code for; documents have these, so they never change."""

    UPLOAD_STUCK = "upload_stuck"
    DELETION_STUCK = "deletion_stuck"
    UNPUBLISHED = "unpublished"
    ORPHANS = "orphans"
    UNDELETED_OBJECTS = "undeleted_objects"
    LEFT_BY_A_LOSS = "left_by_a_loss"
    TOPIC_DELETED = "topic_deleted"
    TOPIC_UNKNOWN = "topic_unknown"
    VACUUM_DUE = "vacuum_due"
    UNFOUND_OFFSETS = "unfound_offsets"
    HOLES_ASSUMED = "holes_assumed"
    OVERLAPPING_UPLOADS = "overlapping_uploads"
    SMALL_SEGMENTS = "small_segments"
    EMPTY_POLICY = "empty_policy"
    KAFKA_20732 = "kafka_20732"
    METADATA_LARGE = "metadata_large"


_SEVERITIES: Final[dict[str, Severity]] = {
    **dict.fromkeys(
        (
            PreconditionCode.RETENTION_BYTES,
            PreconditionCode.RETENTION_MS,
            PreconditionCode.METADATA_SETTINGS,
            PreconditionCode.STOPS_BROKERS,
            RefusalReason.GAP.code,
            RefusalReason.DATA_GONE.code,
            RefusalReason.CORRUPT.code,
            RefusalReason.NOT_IN_TIER.code,
            RefusalReason.DELETED_BY_BROKERS.code,
            RefusalReason.UNLIKE_BROKERS.code,
            RefusalReason.LINEAGE_DIVERGED.code,
            RefusalReason.LINEAGE_DENIED.code,
            RefusalReason.TIER_BEYOND_LOG.code,
            RefusalReason.METADATA_LOST.code,
            RefusalReason.ANOTHER_METADATA_TOPIC.code,
        ),
        Severity.LOSES_DATA,
    ),
    RefusalReason.NEVER_NAMED.code: Severity.LEAKS,
}
"""Of refusals; what is not here hinders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with a partition, a topic, or the cluster."""

    code: str
    """Lower case with underscores: of `FindingCode`, or of a refusal."""
    severity: Severity
    detail: str
    """What is wrong, with its value and place; a sentence without its full stop."""
    remedy: str
    """What to do, in sentences."""
    key: PartitionKey | None = None
    """The partition; None: it is a topic's or the cluster's."""
    topic: str = ""
    """The topic; empty: it is the cluster's."""
    size_bytes: int | None = None
    """Bytes of the objects that it is about; None: it is about none, or they are not known."""

    @property
    def needs_a_person(self) -> bool:
        """Whether something loses data or leaks."""
        return self.severity in NEEDS_A_PERSON


def severity_of(code: str) -> Severity:
    """How bad the reason of a refusal is."""
    return _SEVERITIES.get(code, Severity.HINDERS)


def finding_of(
    part: RefusalPart,
    *,
    key: PartitionKey | None = None,
    topic: str = "",
    size_bytes: int | None = None,
) -> Finding:
    """The finding that a refusal is."""
    return Finding(
        code=str(part.code),
        severity=severity_of(part.code),
        detail=part.detail.rstrip("."),
        remedy=part.remedy,
        key=key,
        topic=topic if key is None else key.topic,
        size_bytes=size_bytes,
    )


_GOES_ON: Final = (
    PreconditionCode.STOPS_BROKERS,
    RefusalReason.METADATA_LOST.code,
    RefusalReason.ANOTHER_METADATA_TOPIC.code,
    PreconditionCode.METADATA_SETTINGS,
    PreconditionCode.RETENTION_MS,
    PreconditionCode.RETENTION_BYTES,
    FindingCode.EMPTY_POLICY,
    FindingCode.KAFKA_20732,
)
"""What loses more as long as nothing is done: first of all, in this order. The first ones take more
with them when a broker restarts, the others let brokers delete."""


def worst_first(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by severity: what loses more if nothing is done, then by code.

    Of one code the largest is first, then by topic and partition.
    """
    order = [*Severity]
    return tuple(
        sorted(
            found,
            key=lambda one: (
                order.index(one.severity),
                [one.code != code for code in _GOES_ON],
                one.code,
                -(one.size_bytes or 0),
                one.topic,
                -1 if one.key is None else one.key.partition,
            ),
        )
    )
