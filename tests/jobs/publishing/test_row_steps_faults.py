"""Steps that change the row, and what else happens: nothing is half done, and nothing is lost."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.claims import ORDERS, catalog_of
from tests.jobs.publishing.published_tier import NOW_SENT_MS, PublishedTier, compacted_once
from tests.jobs.publishing.row_step_scenes import (
    Scene,
    asked,
    every_scene,
    looked,
    orphans,
    survivors_of,
    to_copy,
    to_merge,
    to_merge_what_is_live,
    writing_scenes,
)
from tests.spread import spread
from tests.storage.call_scripts import Killed, Script, at, fails, instead, killed
from tests.storage.scripted_catalog import rival_claims, unknown
from tierfold.compaction.cleaning import merges as merge_tasks
from tierfold.compaction.commits.commit import NoteDropped, proposed
from tierfold.compaction.commits.held_partition import HeldPartition
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.outcomes import Fenced, LostRace, Unknown
from tierfold.compaction.model.segment_ids import Maker, maker_of
from tierfold.compaction.planning import merges as merge_plans
from tierfold.jobs.context.stopping import Stopped, deferred, stoppable
from tierfold.jobs.publishing.row_steps import Changed, NotChanged, StepFailed, note_published

NO_ANSWER: Final = UnreadableObject("no answer", where="the catalog", remedy="Look again.")


tier = compacted_once()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The waits of a run, which does not wait."""
    asked_for: list[int] = []
    monkeypatch.setattr("tierfold.jobs.pipeline.held_partitions.pause", asked_for.append)
    return asked_for


def rival(tier: PublishedTier) -> None:
    rival_claims(str(tier.folder / "_tierfold"), ORDERS)()


def why_failed(outcome: object) -> str:
    assert isinstance(outcome, StepFailed), outcome
    assert outcome.why.startswith("orders-0: "), outcome.why
    return outcome.why


# Other runs.


@every_scene
def test_nothing_is_written_for_a_row_that_another_run_took(
    tier: PublishedTier, scene: Scene
) -> None:
    one = asked(tier, scene)
    rival(tier)
    before = tier.row
    outcome = one.carried_out()
    assert isinstance(outcome, NotChanged)
    assert isinstance(outcome.outcome, Fenced)
    assert (tier.row, orphans(tier)) == (before, [])


@every_scene
def test_nothing_is_written_for_a_row_that_this_run_changed(
    tier: PublishedTier, scene: Scene
) -> None:
    one = asked(tier, scene)
    one.held.commit([proposed(tier.row, NoteDropped(), commit_id="later", at_ms=NOW_SENT_MS)])
    assert one.carried_out() == NotChanged(LostRace(found_commit_id="later"))
    assert orphans(tier) == []
    lost = NotChanged(LostRace(found_commit_id="later"))
    assert note_published(one.held, [one.partition.look], NOW_SENT_MS) == {ORDERS: lost}


@every_scene
def test_a_run_that_takes_over_before_the_commit_fences_it(
    tier: PublishedTier, scene: Scene
) -> None:
    one = asked(tier, scene, at("commit 1", lambda: rival(tier)))
    outcome = one.carried_out()
    assert isinstance(outcome, NotChanged)
    assert isinstance(outcome.outcome, Fenced)
    assert tier.row.owner_run == "rival"


def test_a_run_that_takes_over_before_the_claim_of_a_merge_fences_it(tier: PublishedTier) -> None:
    one = asked(tier, to_merge, at("claim 1", lambda: rival(tier)))
    outcome = one.carried_out()
    assert isinstance(outcome, NotChanged)
    assert isinstance(outcome.outcome, Fenced)
    assert orphans(tier) == []
    assert isinstance(one.held.by_key[ORDERS].outcome, Fenced), "it holds the partition no longer"


def test_a_fenced_run_notes_nothing_as_published(tier: PublishedTier) -> None:
    held = tier.held(at("commit 1", lambda: rival(tier)))
    while tier.look(held).look.view.segments.keys() & tier.row.live_ids != tier.row.live_ids:
        tier.advance(held)
    outcome = note_published(held, [tier.look(held).look], NOW_SENT_MS)[ORDERS]
    assert isinstance(outcome, NotChanged)
    assert isinstance(outcome.outcome, Fenced)
    again = note_published(held, [tier.look(held).look], NOW_SENT_MS)[ORDERS]
    assert again == outcome
    assert tier.row.passes == ()


# A catalog that does not answer.


@every_scene
def test_a_row_that_cannot_be_read_stops_the_step(tier: PublishedTier, scene: Scene) -> None:
    one = asked(tier, scene, fails("look 1", NO_ANSWER))
    assert one.carried_out() == StepFailed(str(NO_ANSWER))
    assert orphans(tier) == []


@every_scene
@pytest.mark.parametrize("is_done", [False, True])
def test_a_commit_without_an_answer_is_looked_for(
    tier: PublishedTier, scene: Scene, is_done: bool, pauses: list[int]
) -> None:
    rule = fails("commit 1", NO_ANSWER, is_done=True) if is_done else instead("commit 1", unknown)
    one = asked(tier, scene, rule)
    outcome = one.carried_out()
    if is_done:
        assert isinstance(outcome, Changed)
        assert outcome.row == tier.row
        assert pauses == [0]
    else:
        assert isinstance(outcome, NotChanged)
        assert isinstance(outcome.outcome, Unknown)
        assert outcome.outcome.is_untraced


def test_a_claim_without_an_answer_ends_the_merge(tier: PublishedTier) -> None:
    one = asked(tier, to_merge)
    cause = Unknown(commit_id="c", cause="no answer")
    claim = {ORDERS: HeldPartition(row=tier.row, outcome=cause)}
    scripted = replace(one, held=tier.held(instead("claim 1", lambda _: claim)))
    scripted = replace(scripted, partition=tier.look(scripted.held))
    assert scripted.carried_out() == NotChanged(cause)
    failing = replace(one, held=tier.held(fails("claim 1", NO_ANSWER)))
    failing = replace(failing, partition=tier.look(failing.held))
    assert failing.carried_out() == StepFailed(str(NO_ANSWER))
    assert orphans(tier) == []


# A process that ends.


def written_calls(tier: PublishedTier, scene: Scene) -> list[str]:
    """Every write of the step, in order."""
    one = asked(tier, scene)
    assert isinstance(one.carried_out(), Changed)
    store = one.held.context.tier.store
    script: Script = store.script  # type: ignore[attr-defined]
    kinds = ("open_new", "copy", "claim", "commit")
    return [str(call) for call in script.calls if call.operation in kinds]


@writing_scenes
@pytest.mark.parametrize("count", [2, pytest.param(100, id="all", marks=pytest.mark.soak)])
def test_a_run_that_dies_at_any_write_leaves_orphans_at_most(
    tier: PublishedTier, scene: Scene, tmp_path: Path, count: int
) -> None:
    calls = written_calls(tier.copied(tmp_path / "another"), scene)
    assert calls[-1] == "commit 1"
    assert len(calls) > 5
    scene(tier)
    survivors = survivors_of(tier, *(one for one in tier.uploads if one.end_offset >= 20))
    before = tier.row
    for step in spread(calls, count):
        with pytest.raises(Killed):
            looked(tier, killed(step)).carried_out()
    # Only what a claim takes is live now.
    uploads = {segment.segment_id for segment in tier.uploads}
    assert tier.row.live_ids - uploads == before.live_ids - uploads
    assert tier.row.retired == before.retired
    left = orphans(tier)
    assert left
    fingerprint = catalog_of(tier.folder).fingerprint()
    assert {maker_of(one, fingerprint) for one in left} == {Maker.THIS_CATALOG}
    with pytest.raises(Killed):
        looked(tier, killed("commit 1", is_done=True)).carried_out()
    assert tier.publish(tier.held()) in (["start", "swap", "Done"], ["start", "repair", "Done"])
    tier.reads(survivors)
    assert orphans(tier) == left, "no look has taken one of them"


def test_a_signal_ends_a_merge(tier: PublishedTier) -> None:
    def sigterm() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    one = asked(tier, to_merge_what_is_live, at("open_new 1", sigterm))
    before, handler = tier.row, signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(Stopped), stoppable(), deferred():
            one.carried_out()
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert tier.row == before
    assert orphans(tier) == []


# What a tier does not allow.


@writing_scenes
def test_a_full_tier_is_not_filled_further(tier: PublishedTier, scene: Scene) -> None:
    one = asked(tier, scene, instead("free_bytes", lambda _: 100))
    before = tier.row
    why = why_failed(one.carried_out())
    assert "bytes, and the tier has 100 free. Free space, then run again." in why
    assert (tier.row, orphans(tier)) == (before, [])


def test_a_merge_beyond_the_formats_limit_is_not_written(
    tier: PublishedTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = asked(tier, to_merge)
    before = tier.row
    monkeypatch.setattr(merge_plans, "LOG_BYTES_MAX", 300)
    why = why_failed(one.carried_out())
    assert "2 segments of offsets 0 to 29 (" in why
    assert "too large to be one: a .log has at most 300 bytes. Nothing was changed." in why
    assert (tier.row, orphans(tier)) == (before, [])


def test_a_merge_that_grows_beyond_the_limit_leaves_nothing(
    tier: PublishedTier, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = asked(tier, to_merge_what_is_live)
    before = tier.row
    monkeypatch.setattr(merge_tasks, "LOG_BYTES_MAX", 300)
    assert "too large to be one" in why_failed(one.carried_out())
    assert (tier.row, orphans(tier)) == (before, [])


def test_an_upload_that_is_not_what_brokers_noted_is_not_merged(tier: PublishedTier) -> None:
    """It would be retired, and its offsets would be lost."""
    upload = tier.upload(14, 22, noted_bytes=1)
    one = looked(tier)
    before = tier.row
    why = why_failed(one.carried_out())
    assert f"brokers have segment {upload.segment_id} (offsets 14 to 22), which cannot be" in why
    assert "these objects are not what brokers uploaded" in why
    assert tier.row == before


def test_a_view_that_is_refused_stops_a_merge(tier: PublishedTier) -> None:
    (kept,) = tier.row.segments
    one = asked(tier, to_merge)
    tier.path_of(kept.segment_id, "index").unlink()
    partition = tier.look(one.held)
    assert "lacks .index" in why_failed(replace(one, partition=partition).carried_out())


@pytest.mark.parametrize("scene", [to_merge_what_is_live, to_copy])
def test_a_source_that_goes_meanwhile_stops_the_step(tier: PublishedTier, scene: Scene) -> None:
    (kept,) = tier.row.segments
    one = asked(tier, scene)
    before = tier.row
    tier.path_of(kept.segment_id, "log").unlink()
    outcome = one.carried_out()
    assert isinstance(outcome, StepFailed)
    assert kept.segment_id in outcome.why
    assert (tier.row, orphans(tier)) == (before, [])
