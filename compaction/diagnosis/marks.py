"""What other verbs refuse, records of the metadata topic, and what other catalogs made."""

from __future__ import annotations

from collections.abc import Iterator

from tierfold.compaction.brokers.preconditions import partition_preconditions
from tierfold.compaction.diagnosis.examined import Examined, first_named
from tierfold.compaction.diagnosis.findings import Finding, code_of, finding_of, severity_of
from tierfold.compaction.diagnosis.objects import without_name, without_objects
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.segment_ids import Maker, maker_of, mark_of
from tierfold.compaction.model.wording import counted

_ANOTHER_CATALOG = code_of(RefusalReason.ANOTHER_CATALOG)


def refused(one: Examined) -> Iterator[Finding]:
    """Why other verbs refuse the partition, a finding for each reason."""
    if one.refusal is None:
        return
    sizes = {
        code_of(RefusalReason.NOT_IN_TIER): sum(
            segment.added.size_bytes for segment in without_objects(one)
        ),
        code_of(RefusalReason.NEVER_NAMED): sum(listed.size_bytes for listed in without_name(one)),
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
    ids = {listed.segment_id for listed in one.listed or ()}
    if one.brokers is not None:
        ids |= one.brokers.view.segments.keys()
    found = sorted(ids - one.named_ids)
    if one.listed is None:  # Without a tier no catalog asks, and one may be at work.
        marks = {mark.fingerprint for mark in map(mark_of, found) if mark is not None}
        others = found if len(marks) > 1 else []
        what = f"runs of {counted(len(marks), 'catalog')} made segments that brokers have"
    else:
        asked_by = None if one.view is None else one.view.fingerprint
        if one.brokers is not None:
            asked_by = one.brokers.asked_by
        others = [name for name in found if maker_of(name, asked_by) is Maker.ANOTHER_CATALOG]
        what = f"runs of another catalog made {counted(len(others), 'segment')}"
    if others:
        yield Finding(
            code=_ANOTHER_CATALOG,
            severity=severity_of(_ANOTHER_CATALOG),
            detail=f"{what}: {first_named(others)}",
            remedy="Two catalogs must not compact one tier: find the other one, and give it with"
            " --catalog.",
            key=one.key,
            topic=one.key.topic,
        )
