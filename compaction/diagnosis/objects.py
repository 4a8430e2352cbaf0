"""Objects that are missing, and objects that nothing needs, by the listing and what brokers have.

Rule: SEMANTICS 1, "Discovery"; `compaction.discovery.phases`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tierfold.compaction.brokers.broker_view import BrokerSegment
from tierfold.compaction.deletion.dropped import left_behind
from tierfold.compaction.diagnosis.examined import Examined, first_named, noted
from tierfold.compaction.diagnosis.findings import Finding, FindingCode, Severity
from tierfold.compaction.discovery.identity import OfCluster
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.phases import Phase, phase_of
from tierfold.compaction.discovery.view import RefusalReason
from tierfold.compaction.model.rules import DAY_MS
from tierfold.compaction.model.segment_ids import is_own_id
from tierfold.compaction.model.wording import counted

_WEEK_MS: Final = 7 * DAY_MS
_NOT_IN_TIER: Final = RefusalReason.NOT_IN_TIER.code
_NEVER_NAMED: Final = RefusalReason.NEVER_NAMED.code


def without_objects(one: Examined) -> tuple[BrokerSegment, ...]:
    """What brokers have as whole, and the tier has not all objects of; none without a listing."""
    if one.listed is None:
        return ()
    whole = {listed.segment_id for listed in one.listed if listed.is_complete}
    return tuple(
        segment
        for segment in one.finished
        if segment.added.segment_id not in whole | one.retired_ids
    )


def missing_objects(one: Examined) -> Iterator[Finding]:
    """Segments that brokers read, and whose objects are not there."""
    missing = without_objects(one)
    if missing:
        yield Finding(
            code=_NOT_IN_TIER,
            severity=Severity.LOSES_DATA,
            detail=f"brokers have {counted(len(missing), 'segment')} as complete whose objects are"
            f" not all in this tier, so consumers cannot read them: {noted(missing)}",
            remedy="Check that these brokers write to this place (their rsm.config). If they do,"
            " bring the objects back from a backup.",
            key=one.key,
            topic=one.key.topic,
            size_bytes=sum(segment.added.size_bytes for segment in missing),
        )


def without_name(one: Examined) -> tuple[ListedSegment, ...]:
    """Objects that no row names, and that neither brokers nor a run of tierfold ever had."""
    if one.brokers is None:
        return ()
    return tuple(
        listed
        for listed in _unnamed(one)
        if phase_of(listed.segment_id, one.brokers) is Phase.NEVER_NAMED
        and not is_own_id(listed.segment_id)
    )


def never_named(one: Examined) -> Iterator[Finding]:
    """Objects of segments that brokers never had, whole or not."""
    if found := without_name(one):
        yield Finding(
            code=_NEVER_NAMED,
            severity=Severity.LEAKS,
            detail=f"the tier has objects of {counted(len(found), 'segment')} that these brokers"
            f" never had: {_listed(found)}",
            remedy="If a person copied them here, move them out of the tier and keep them until you"
            " know what they are: brokers delete nothing that they never had.",
            key=one.key,
            topic=one.key.topic,
            size_bytes=_bytes(found),
        )


def undeleted(one: Examined) -> Iterator[Finding]:
    """Objects of segments that brokers have deleted or no longer know, and that nothing deletes."""
    if one.brokers is None:
        return
    found = [
        listed
        for listed in _unnamed(one)
        if phase_of(listed.segment_id, one.brokers) is Phase.GONE
    ]
    if found:
        yield one.finding(
            FindingCode.UNDELETED_OBJECTS,
            Severity.LEAKS,
            f"objects of {counted(len(found), 'segment')} are left that brokers have deleted and"
            f" forgotten: {_listed(found)}",
            remedy="Delete them with the store's own tools: no broker will, and tierfold deletes"
            " only what it wrote.",
            size_bytes=_bytes(found),
        )


def left_by_a_loss(one: Examined) -> Iterator[Finding]:
    """Replaced uploads below the log start that a rebuild does not name again."""
    if found := _left_behind(one):
        yield one.finding(
            FindingCode.LEFT_BY_A_LOSS,
            Severity.LEAKS,
            f"the tier has {counted(len(found), 'replaced upload')} below the brokers' log start"
            f" that the metadata topic has not named since it was lost: {_listed(found)}",
            remedy="If the log start is right, move their objects out of the tier, or delete them"
            " with the store's own tools: no consumer reads them, brokers that have restarted since"
            " do not know them, and tierfold deletes only what it wrote or listed. The next"
            " `tierfold vacuum TIER --publish` then forgets them.",
            size_bytes=_bytes(found),
        )


def _left_behind(one: Examined) -> tuple[ListedSegment, ...]:
    """Their objects, once brokers that have not restarted had a day to delete them."""
    if one.brokers is None or one.row is None or not one.is_settled(one.row.rebuilt_at_ms):
        return ()
    ids = left_behind(one.row, one.brokers)
    return tuple(listed for listed in one.listed or () if listed.segment_id in ids)


def orphans(one: Examined) -> Iterator[Finding]:
    """What runs wrote and never committed, and what has only offsets of live segments."""
    found = () if one.view is None else one.view.orphans
    had = {} if one.brokers is None else one.brokers.view.segments
    old = [
        listed
        for listed in found
        if one.is_settled(listed.modified_ms) and listed.segment_id not in had
    ]
    if old:
        yield one.finding(
            FindingCode.ORPHANS,
            Severity.LEAKS,
            f"the tier has {counted(len(old), 'segment')} that runs of tierfold wrote and never"
            f" committed, or whose offsets other segments have: {_listed(old)}",
            remedy="`tierfold vacuum TIER` deletes orphans; --dry-run shows them. Where brokers"
            " serve the tier, add --publish.",
            size_bytes=_bytes(old),
        )


def vacuum_due(one: Examined) -> Iterator[Finding]:
    """Replaced segments that have waited for `tierfold vacuum` longer than a week."""
    others = {segment.added.segment_id for segment in one.finished}
    others |= {listed.segment_id for listed in _left_behind(one)}
    old = {
        entry.segment.segment_id
        for entry in (() if one.row is None else one.row.retired)
        if one.is_settled(entry.retired_at_ms, _WEEK_MS) and entry.segment.segment_id not in others
    }
    sizes = [listed.size_bytes for listed in one.listed or () if listed.segment_id in old]
    sizes += [
        one.stored_bytes([segment])
        for segment in one.replaced
        if one.is_settled(segment.since_ms, _WEEK_MS)
    ]
    if sizes:
        yield one.finding(
            FindingCode.VACUUM_DUE,
            Severity.LEAKS,
            f"the tier has {counted(len(sizes), 'segment')} that runs of tierfold replaced more"
            " than a week ago",
            remedy="Run `tierfold vacuum TIER` every night, with --publish where brokers"
            " serve the tier: it deletes what was replaced, a grace period later; --dry-run shows"
            " what. If no broker serves this tier, set tier.binding=detached.",
            size_bytes=sum(sizes),
        )


def deleted_topic(one: Examined) -> Iterator[Finding]:
    """What is left in the tier of a topic that the cluster does not have."""
    brokers = one.brokers
    if brokers is None or brokers.has_topic or not one.is_settled(_last_ms(one)):
        return
    listed = one.listed or ()
    size_bytes = _bytes(listed) if one.listed is not None else one.stored_bytes(one.finished)
    if not size_bytes:
        return
    is_its_own = brokers.view.last_offset is not None or one.whose is OfCluster.DELETED
    if is_its_own:
        yield one.finding(
            FindingCode.TOPIC_DELETED,
            Severity.LEAKS,
            "the topic with this id was deleted, and objects of it are left",
            remedy="Run `tierfold vacuum TIER --publish` with these brokers: it deletes what"
            " tierfold wrote. What is left then, delete with the store's own tools: no broker"
            " will.",
            size_bytes=size_bytes,
        )
    else:
        yield one.finding(
            FindingCode.TOPIC_UNKNOWN,
            Severity.NOTE,
            "these brokers have no topic with this id, and never had one",
            remedy="If it is another cluster's, run doctor with that cluster's brokers. If it is no"
            " cluster's, it is a copy that no broker reads.",
            size_bytes=size_bytes,
        )


def _last_ms(one: Examined) -> int:
    """When brokers last said something of it, or something was written."""
    brokers = None if one.brokers is None else one.brokers.view.last_timestamp_ms
    return max([brokers or 0, *(listed.modified_ms for listed in one.listed or ())])


def _unnamed(one: Examined) -> Iterator[ListedSegment]:
    """Old objects that no row names, and that no person says to leave alone."""
    alone = frozenset[str]() if one.row is None else one.row.left_alone_ids
    for listed in one.listed or ():
        is_named = listed.segment_id in one.named_ids | alone
        if not is_named and one.is_settled(listed.modified_ms):
            yield listed


def _listed(found: Sequence[ListedSegment]) -> str:
    return first_named([f"{one.segment_id} (start {one.start_offset})" for one in found])


def _bytes(found: Sequence[ListedSegment]) -> int:
    return sum(one.size_bytes for one in found)
