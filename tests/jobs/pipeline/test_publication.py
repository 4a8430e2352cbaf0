"""What a report says of a publication, and how it changes the outcome."""

from __future__ import annotations

import pytest

from tests.jobs.tiers import key_of
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LEFT,
    NOTHING_TO_DO,
    PUBLISHED,
    RESTORED,
    PartitionReport,
)
from tierfold.jobs.pipeline.publication import Publication, PublicationState, with_publication

KEY = key_of("orders")
PART = RefusalPart(code="late_sends", detail="no limit", remedy="Set it.")


@pytest.mark.parametrize(
    ("state", "of_compacted", "of_nothing"),
    [
        (PublicationState.PUBLISHED, COMPACTED, PUBLISHED),
        (PublicationState.WAITS, COMPACTED, LEFT),
        (PublicationState.LEFT, COMPACTED, LEFT),
        (PublicationState.FENCED, FENCED, FENCED),
        (PublicationState.FAILED, FAILED, FAILED),
    ],
)
def test_what_is_committed_stays_compacted_unless_a_person_must_act(
    state: PublicationState, of_compacted: str, of_nothing: str
) -> None:
    publication = Publication(state=state, why="because", events=5)
    for before, after in ((COMPACTED, of_compacted), (NOTHING_TO_DO, of_nothing)):
        report = PartitionReport(key=KEY, outcome=before, reason="clean", events_sent=2)
        shown = with_publication(report, publication)
        assert (shown.outcome, shown.events_sent, shown.publishing) == (after, 7, state)
        is_published = state is PublicationState.PUBLISHED
        assert ("because" in shown.reason) is not is_published
        assert ("clean" in shown.reason) is (before == COMPACTED)
        assert ("because" in shown.notes) is is_published


@pytest.mark.parametrize("state", [PublicationState.FENCED, PublicationState.FAILED])
def test_a_restore_of_which_brokers_lack_something_does_not_count_as_done(
    state: PublicationState,
) -> None:
    report = PartitionReport(key=KEY, outcome=RESTORED)
    outcome = {PublicationState.FENCED: FENCED, PublicationState.FAILED: FAILED}[state]
    assert with_publication(report, Publication(state=state)).outcome == outcome
    waits = Publication(state=PublicationState.WAITS)
    assert with_publication(report, waits).outcome == RESTORED


def test_what_was_not_compacted_is_as_it_was() -> None:
    report = PartitionReport(key=KEY, outcome=FAILED, reason="corrupt")
    shown = with_publication(report, Publication(state=PublicationState.PUBLISHED))
    assert (shown.outcome, shown.reason, shown.notes) == (FAILED, "corrupt", ())


def test_what_a_person_must_mend_is_named_with_its_code() -> None:
    report = PartitionReport(key=KEY, outcome=COMPACTED)
    failed = Publication(state=PublicationState.FAILED, why="no limit. Set it.", refusals=(PART,))
    assert with_publication(report, failed).refusals == (PART,)
