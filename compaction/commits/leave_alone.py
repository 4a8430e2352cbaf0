"""What a person may leave alone for good: whole segments that brokers never had.

They contradict brokers' metadata, so their partition is refused (PUBLISHING 2.3). A run that was
killed before tierfold marked its ids left such segments, too; only a person can know that.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tierfold.compaction.commits.commit import NoteConsent
from tierfold.compaction.discovery.facts import PartitionFacts
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.discovery.refused_by_brokers import never_had
from tierfold.compaction.discovery.view import PLACE, Refusal, RefusalReason
from tierfold.compaction.model.serving import Consent, ConsentKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """The segments that a consent is about."""

    segments: tuple[ListedSegment, ...]
    """In offset order; empty: all of them are left alone already."""

    def consent(self, *, at_ms: int, run: str) -> NoteConsent:
        """The change of the row; `at_ms`: epoch milliseconds."""
        consent = Consent(
            kind=ConsentKind.LEFT_ALONE,
            given_at_ms=at_ms,
            run=run,
            segment_ids=tuple(segment.segment_id for segment in self.segments),
        )
        return NoteConsent(consent=consent)


def left_alone(facts: PartitionFacts, ids: Collection[str]) -> LeftAlone | Refusal:
    """What a consent to these ids is about, or why it must not; `facts` are beside brokers.

    An id that brokers have, that a run of a tierfold made, or that is not there is refused: the
    consent would be about something else than the person saw.
    """
    found = never_had(facts)
    known = {one.segment_id for one in (*found, *facts.classified.left_alone)}
    if wrong := sorted(set(ids) - known):
        return Refusal(
            reason=RefusalReason.NEVER_NAMED,
            detail=f"{', '.join(wrong)}: not among the whole segments that these brokers never had"
            " and tierfold did not write",
            remedy=f"`tierfold forget {PLACE}`, with the same brokers, lists them."
            if found
            else "There are no such segments: leave out --leave-alone.",
        )
    return LeftAlone(segments=tuple(one for one in found if one.segment_id in ids))
