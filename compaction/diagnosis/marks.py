"""What other verbs refuse, records of the metadata topic, and what other catalogs made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierfold.compaction.brokers.preconditions import partition_preconditions
from tierfold.compaction.diagnosis.examined import Examined, first_named
from tierfold.compaction.diagnosis.findings import Finding, finding_of, severity_of
from tierfold.compaction.diagnosis.objects import without_name, without_objects
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.segment_ids import Maker, maker_of, mark_of
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.model.wording import counted

_ANOTHER_CATALOG = RefusalReason.ANOTHER_CATALOG.code


def refused(one: Examined) -> Iterator[Finding]:
    """Why other verbs refuse the partition, a finding for each reason."""
    if one.refusal is None:
        return
    sizes = {
        RefusalReason.NOT_IN_TIER.code: sum(
            segment.added.size_bytes for segment in without_objects(one)
        ),
        RefusalReason.NEVER_NAMED.code: sum(listed.size_bytes for listed in without_name(one)),
    }
    for part in one.refusal.parts:
        yield finding_of(part, key=one.key, size_bytes=sizes.get(part.code) or None)


def metadata_records(one: Examined) -> Iterator[Finding]:
    """Records of the metadata topic that stop brokers, or that tierfold cannot follow."""
    if one.brokers is not None:
        for part in partition_preconditions(one.brokers.view):
            yield finding_of(part, key=one.key)


def other_catalogs(one: Examined) -> Iterator[Finding]:
    """Segments that the runs of another catalog made, and that the row has not adopted."""
    if one.listed is None:  # Without a tier no catalog asks: see `several_catalogs`.
        return
    ids = {listed.segment_id for listed in one.listed}
    if one.brokers is not None:
        ids |= one.brokers.view.segments.keys()
    others = [
        name
        for name in sorted(ids - one.named_ids)
        if maker_of(name, one.fingerprint) is Maker.ANOTHER_CATALOG
    ]
    if others:
        what = counted(len(others), "segment")
        detail = f"runs of another catalog made {what}: {first_named(others)}"
        yield _another_catalog(detail, one.key)


def several_catalogs(examined: Sequence[Examined]) -> Iterator[Finding]:
    """The catalogs whose runs made what brokers have, if there are several."""
    if any(one.listed is not None for one in examined):
        return
    made: dict[int, str] = {}
    for one in examined:
        for name in () if one.brokers is None else one.brokers.view.segments:
            mark = mark_of(name)
            if mark is not None:
                made.setdefault(mark.fingerprint, f"{name} of {one.key}")
    if len(made) > 1:
        detail = f"brokers have segments that runs of {len(made)} catalogs made"
        yield _another_catalog(f"{detail}: {first_named(sorted(made.values()))}", None)


def _another_catalog(detail: str, key: PartitionKey | None) -> Finding:
    return Finding(
        code=_ANOTHER_CATALOG,
        severity=severity_of(_ANOTHER_CATALOG),
        detail=detail,
        remedy="Two catalogs must not compact one tier: find the other one, and give it with"
        " --catalog.",
        key=key,
        topic="" if key is None else key.topic,
    )
