"""Whose orphans and unfinished uploads a catalog may delete, by the marks in their ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from tests.compaction.builders import (
    BINDINGS,
    a_chain,
    a_segment,
    a_state,
    seen,
    segment_id,
    unknown,
)
from tests.storage.new_ids import foreign_id, own_id
from tierfold.compaction.deletion.deletion_plan import (
    DeletionPlan,
    VacuumLimits,
    deletion_plan_of,
    waits_until,
)
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.listing import IncompleteUpload
from tierfold.compaction.model.bindings import UNDECLARED, Binding, Detached, ServedBy
from tierfold.compaction.model.rules import DAY_MS, Rules
from tierfold.compaction.model.segment_ids import Maker, maker_of

NOW_MS: Final = 100 * DAY_MS
ROW: Final = a_state(a_chain(10, 10, 10))
OLDER_ID: Final = "dGllcmZvbGQuR8DkMUaQBg"
IDS: Final = {
    Maker.BROKER: segment_id("broker"),
    Maker.THIS_CATALOG: own_id(),
    Maker.ANOTHER_CATALOG: foreign_id(),
    Maker.OLDER_TIERFOLD: OLDER_ID,
}
PLACES: Final = ("", "log", "snapshot")
"""What the segment lacks."""


def planned(
    binding: Binding,
    found: tuple[Candidate, ...] = (),
    uploads: tuple[IncompleteUpload, ...] = (),
    **limits: bool,
) -> DeletionPlan:
    times = VacuumLimits(now_ms=NOW_MS, **limits)
    return deletion_plan_of(seen(ROW, found), Rules(), binding, times, incomplete_uploads=uploads)


def within(name: str, *, lacking: str = "") -> Candidate:
    """A segment of that id in the middle of the live range."""
    return unknown(a_segment(12, 17, segment_id=name), lacking=lacking.split())


def goes(binding: Binding) -> set[Maker]:
    """Whose orphans go."""
    match binding:
        case Detached():
            return {*Maker} - {Maker.ANOTHER_CATALOG}
        case ServedBy():
            return set()
        case _:
            return {Maker.THIS_CATALOG}


@pytest.mark.parametrize("lacking", PLACES)
@pytest.mark.parametrize("maker", Maker)
@pytest.mark.parametrize("binding", BINDINGS)
def test_an_orphan_goes_only_if_its_id_says_that_it_is_ours(
    binding: Binding, maker: Maker, lacking: str
) -> None:
    deletion = planned(binding, (within(IDS[maker], lacking=lacking),))
    orphans = {orphan.segment_id for orphan in deletion.orphans}
    assert orphans == ({IDS[maker]} if maker in goes(binding) else set())
    assert bool(deletion.notes) is not bool(orphans)
    waits = waits_until(
        seen(ROW, [within(IDS[maker], lacking=lacking)]),
        Rules(),
        binding,
        VacuumLimits(now_ms=1_000_000),
    )
    assert ("orphan" in waits) is (maker in goes(binding))


@pytest.mark.parametrize("maker", Maker)
@pytest.mark.parametrize("binding", BINDINGS)
def test_an_unfinished_upload_goes_only_if_its_id_says_that_it_is_ours(
    binding: Binding, maker: Maker
) -> None:
    upload = IncompleteUpload(
        object_key="f/.x", size_bytes=1, modified_ms=0, segment_id=IDS[maker]
    )
    deletion = planned(binding, uploads=(upload,))
    may = goes(binding) | {Maker.THIS_CATALOG}
    assert deletion.incomplete_uploads == ((upload,) if maker in may else ())
    assert bool(deletion.notes) is (maker not in may)


def test_each_that_stays_is_named_with_its_reason() -> None:
    uploads = [
        IncompleteUpload(object_key=f"f/{name}", size_bytes=1, modified_ms=0, segment_id=name)
        for name in IDS.values()
    ]
    found = tuple(within(name) for name in IDS.values())
    notes = planned(UNDECLARED, found, tuple(uploads)).notes
    (foreign,) = [note for note in notes if IDS[Maker.ANOTHER_CATALOG] in note]
    assert "its id says that it is another catalog's" in foreign
    assert "1 unfinished upload kept: another catalog's, by the id" in notes
    (older,) = [note for note in notes if "an older tierfold" in note]
    assert older.startswith("1 orphan and 1 unfinished upload of an older tierfold kept")
    (brokers,) = [note for note in notes if "a broker may still name" in note]
    assert "they stay: 1 orphaned, 1 in upload. If" in brokers


@pytest.mark.parametrize("maker", Maker)
def test_what_is_set_apart_is_given_up_unless_it_is_another_catalogs(maker: Maker) -> None:
    apart = replace(seen(ROW), set_apart=(within(IDS[maker]).listed,))
    times = VacuumLimits(now_ms=NOW_MS, takes_set_apart=True)
    deletion = deletion_plan_of(apart, Rules(), Detached(), times)
    assert bool(deletion.set_apart) is (maker is not Maker.ANOTHER_CATALOG)


def test_a_segment_of_another_catalog_is_no_candidate_that_waits() -> None:
    for lacking in PLACES:
        view = seen(ROW, [within(IDS[Maker.ANOTHER_CATALOG], lacking=lacking)])
        assert (view.waiting, view.orphans) == ((), ())


@pytest.mark.parametrize("binding", BINDINGS)
def test_a_view_that_takes_it_for_an_orphan_deletes_nothing(binding: Binding) -> None:
    view = replace(seen(ROW), orphans=(within(IDS[Maker.ANOTHER_CATALOG]).listed,))
    deletion = deletion_plan_of(view, Rules(), binding, VacuumLimits(now_ms=NOW_MS))
    assert deletion.orphans == ()


def test_a_catalog_that_does_not_exist_yet_made_no_id() -> None:
    assert maker_of(own_id(), None) is Maker.ANOTHER_CATALOG
    assert maker_of(IDS[Maker.BROKER], None) is Maker.BROKER
