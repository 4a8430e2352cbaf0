"""Many partitions are claimed, committed, rechecked and released together, in few commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.compaction.builders import a_chain, a_state
from tests.jobs.claims import catalog_of, row_of
from tests.jobs.tiers import key_of, made_tier
from tests.storage.call_scripts import Call, Rule, Script, at, changes, fails
from tests.storage.live_segments import NOW_MS
from tests.storage.scripted_catalog import ScriptedCatalog, rival_claims
from tierfold.compaction.commits.commit import AdvanceCleanerOffset, CommitProposal, proposed
from tierfold.compaction.model.errors import BadSettings, CorruptLog
from tierfold.compaction.model.outcomes import Committed, Fenced, LostRace, Unknown
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.pipeline import held_partitions
from tierfold.jobs.pipeline.held_partitions import READ_BACK_AFTER_MS, HeldPartitions
from tierfold.storage.catalog.catalog import new_commit_id

KEYS: Final = [key_of(f"t{number}") for number in range(3)]
A, B, C = KEYS
ROWS: Final = [replace(a_state(a_chain(10)), key=key) for key in KEYS]
CAUSE: Final = "the store: no answer. Look again."


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    return made_tier(tmp_path / "tier")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The waits of a run, which does not wait."""
    asked: list[int] = []
    monkeypatch.setattr(held_partitions, "pause", asked.append)
    return asked


def held_by_a_run(tier: Path, *rules: Rule) -> tuple[HeldPartitions, Script]:
    """A run whose catalog is under a script; it holds nothing yet."""
    script = Script(*rules)
    context = run_context(str(tier), None, NOW_MS)
    scripted = replace(context, catalog=ScriptedCatalog(context.catalog_uri, script))
    return HeldPartitions(context=scripted, verb="compact"), script


def cleaned(held: HeldPartitions, keys: Sequence[PartitionKey] = KEYS) -> list[CommitProposal]:
    """A change of each of these partitions."""
    return [
        proposed(row, AdvanceCleanerOffset(epoch=1, offset=9), commit_id=new_commit_id(), at_ms=2)
        for row in (held.by_key[key].row for key in keys)
    ]


def owners(tier: Path) -> list[str]:
    return [row_of(tier, key).owner_run for key in KEYS]


def rival(tier: Path, step: str, key: PartitionKey = B) -> Rule:
    return at(step, rival_claims(str(tier / "_tierfold"), key))


def test_all_are_claimed_changed_and_released_in_one_commit_each(tier: Path) -> None:
    held, script = held_by_a_run(tier)
    with held:
        assert held.claim(ROWS) == {}
        assert owners(tier) == [held.context.run] * 3
        held.commit(cleaned(held))
        held.settle()
        # The claim lasts: brokers may have to learn of the change first.
        assert owners(tier) == [held.context.run] * 3
        assert [held.by_key[key].row for key in KEYS] == [row_of(tier, key) for key in KEYS]
    assert owners(tier) == [""] * 3
    assert [str(call) for call in script.calls] == ["claim 1", "commit 1", "commit 2"]
    assert [row_of(tier, key).cleaner_offset for key in KEYS] == [9] * 3


def test_nothing_is_written_for_no_partition(tier: Path) -> None:
    held, script = held_by_a_run(tier)
    with held:
        assert held.claim([]) == {}
        held.commit([])
        held.settle()
    assert not script.calls


def test_a_claim_that_another_run_won_is_not_held(tier: Path) -> None:
    catalog_of(tier).claim([ROWS[1]], "rival", at_ms=1)
    held, _ = held_by_a_run(tier)
    with held:
        assert held.claim(ROWS) == {B: LostRace(found_commit_id=row_of(tier, B).commit_id)}
        assert [*held.by_key] == [A, C]
    assert owners(tier) == ["", "rival", ""]


def test_a_catalog_that_cannot_be_read_claims_nothing_and_ends_no_run(tier: Path) -> None:
    held, script = held_by_a_run(tier, fails("claim"))
    with held:
        failed = held.claim(ROWS)
        assert {key: str(error) for key, error in failed.items()} == dict.fromkeys(KEYS, CAUSE)
    assert [str(call) for call in script.calls] == ["claim 1"]


class _Ended(BaseException):
    """What ends a run: a signal, or a bug."""


def test_a_run_that_ends_early_releases_what_it_holds(tier: Path) -> None:
    held, script = held_by_a_run(tier)
    with pytest.raises(_Ended), held:
        held.claim(ROWS)
        held.commit(cleaned(held, [A]))
        raise _Ended
    assert owners(tier) == [""] * 3
    assert len(script.of("commit")) == 2
    held.release()
    assert len(script.of("commit")) == 2


def test_a_partition_that_was_lost_keeps_its_new_owner(tier: Path) -> None:
    held, _ = held_by_a_run(tier, rival(tier, "commit 1"))
    with held:
        held.claim(ROWS)
        held.commit(cleaned(held))
        assert held.by_key[B].outcome == Fenced(epoch=1, by_epoch=2, by_run="rival")
        assert isinstance(held.by_key[A].outcome, Committed)
    assert owners(tier) == ["", "rival", ""]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_lost_answer_is_read_back_and_nothing_is_written_until_then(
    tier: Path, pauses: list[int], *, is_done: bool
) -> None:
    held, script = held_by_a_run(tier, fails("commit 1", is_done=is_done))
    with held:
        held.claim(ROWS)
        (proposal,) = cleaned(held, [A])
        held.commit([proposal])
        lost = Unknown(commit_id=proposal.commit_id, cause=CAUSE)
        assert (held.by_key[A].outcome, held.by_key[A].unanswered) == (lost, proposal)
        held.settle()
        if is_done:
            committed = Committed(epoch=1, commit_id=proposal.commit_id)
            assert (held.by_key[A].outcome, held.by_key[A].row) == (committed, row_of(tier, A))
        else:
            assert held.by_key[A].outcome == replace(lost, is_untraced=True)
    assert tuple(pauses) == READ_BACK_AFTER_MS[: 1 if is_done else None]
    # The row may change late, so it is left as it is; the others are released.
    assert owners(tier) == ["" if is_done else held.context.run, "", ""]
    assert len(script.of("commit")) == 2


def test_an_answer_that_comes_late_is_found_by_a_later_attempt(
    tier: Path, pauses: list[int]
) -> None:
    held, _ = held_by_a_run(tier, fails("commit 1", is_done=True), fails("resolve 1"))
    with held:
        held.claim(ROWS)
        held.commit(cleaned(held))
        held.settle()
        assert {type(one.outcome) for one in held.by_key.values()} == {Committed}
    assert tuple(pauses) == READ_BACK_AFTER_MS[:2]


def test_unreadable_rows_resolve_nothing(tier: Path) -> None:
    held, _ = held_by_a_run(tier, fails("commit 1", is_done=True), fails("resolve"))
    held.claim(ROWS)
    held.commit(cleaned(held))
    before = dict(held.by_key)
    held.settle()
    assert held.by_key == before
    assert {type(one.outcome) for one in before.values()} == {Unknown}


def test_a_recheck_finds_what_is_still_held(tier: Path) -> None:
    held, _ = held_by_a_run(tier, rival(tier, "look 1"))
    held.claim(ROWS)
    assert held.recheck([A, B]) == {}
    assert held.by_key[B].outcome == Fenced(epoch=1, by_epoch=2, by_run="rival")
    assert isinstance(held.by_key[A].outcome, Committed)
    assert held.by_key[A].row == row_of(tier, A)


def test_a_row_that_cannot_be_read_again_names_its_own_partition(tier: Path) -> None:
    lie = CorruptLog("it cannot be true", where="the row", remedy="Look at it.")

    def refused(call: Call) -> object:
        return replace(call.result, states=(), refused={(B.topic_id, B.partition): lie})

    held, _ = held_by_a_run(tier, changes("look 1", refused), fails("look 2"))
    held.claim(ROWS)
    assert held.recheck([A, B]) == {B: lie}
    # It may be held all the same.
    assert isinstance(held.by_key[B].outcome, Committed)
    # A row that is gone is a lost race.
    assert held.by_key[A].outcome == LostRace(found_commit_id="")
    assert {key: str(error) for key, error in held.recheck([B, C]).items()} == {B: CAUSE, C: CAUSE}
    assert isinstance(held.by_key[C].outcome, Committed)


def test_a_release_is_never_required(tier: Path, caplog: pytest.LogCaptureFixture) -> None:
    newer = BadSettings("a newer tierfold wrote it", where="the catalog", remedy="Upgrade.")
    rows = ROWS
    for fault in (fails("commit"), fails("commit", newer)):
        held, _ = held_by_a_run(tier, fault)
        with held:
            assert held.claim(rows) == {}
        rows = [row_of(tier, key) for key in KEYS]
        assert {row.owner_run for row in rows} == {held.context.run}
    # Each next run claims at once.
    assert {row.epoch for row in rows} == {2}
    assert "The claims could not be released: the catalog: a newer tierfold wrote it" in caplog.text
