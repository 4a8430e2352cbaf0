"""The checker reports each invariant of `tierfold forget` that a test violates by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.random_verbs import verbs_broker as broker
from tests.faults.random_verbs.test_verbs_checks import (
    GONE,
    NOW_MS,
    RETIRED,
    delete_log,
    elected,
    entry_of,
    named,
    row_of,
    uploaded,
)
from tests.faults.random_verbs.verbs_checks import Checker, Deletion, Forgetting, Violation
from tests.faults.random_verbs.verbs_expected import (
    Entry,
    is_set_apart,
    log_in_view,
    refusals,
)
from tests.faults.random_verbs.verbs_model import Partition, Upload


class Truncated:
    """Epoch 0 wrote offsets 0 to 9; the leader of epoch 1 has other records from 6 on."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.old = self.partition.log
        self.head = uploaded(self.partition, 0, 3)
        self.tail = uploaded(self.partition, 4, 9)
        self.checker = Checker()

    @property
    def row(self) -> Entry:
        return row_of([named(self.head), named(self.tail)])

    def elect(self) -> None:
        """Elect the leader of epoch 1, which uploads its whole log."""
        self.new = elected(self.partition, 6)
        self.next = uploaded(self.partition, 4, 9)

    def refused(self, row: Entry, allowed: Deletion | Forgetting | None = None) -> None:
        """Check a step after which status refuses the partition."""
        entry = entry_of(self.partition, [], reason="refused")
        self.checker.check(self.partition, row, entry, allowed)

    def emptied(self, *given_up: Upload, **fields: Any) -> Entry:
        ids = [upload.segment_id for upload in given_up]
        nothing = {"segments": [], "lineage": [], "forgotten": ids}
        return row_of([named(self.head)]) | nothing | fields

    def forgotten(self, row: Entry, **fields: Any) -> None:
        """Check a step that forgets; `taken`: the segments that discovery would take then."""
        taken = fields.pop("taken", [named(self.head), named(self.next)])
        entry = entry_of(self.partition, taken, **fields)
        allowed = Forgetting(topic_id=self.partition.topic_id)
        self.checker.check(self.partition, row, entry, allowed)


@pytest.fixture
def truncated(partition: Partition) -> Truncated:
    """A row of epoch 0, and the uploads of epoch 1 that conflict with it."""
    found = Truncated(partition)
    found.elect()
    found.refused(found.row)
    return found


def test_a_forgotten_partition_continues_with_the_new_log(truncated: Truncated) -> None:
    truncated.forgotten(truncated.emptied(truncated.tail))
    taken = [named(truncated.head), named(truncated.next)]
    after = row_of(taken, *truncated.new.lineage)
    truncated.checker.check(truncated.partition, after, entry_of(truncated.partition, taken))
    assert len(truncated.checker.events["a row was forgotten"]) == 1
    assert len(truncated.checker.events["a forgotten partition continued"]) == 1


def test_a_forgotten_partition_that_continues_with_the_old_log(truncated: Truncated) -> None:
    taken = [named(truncated.head), named(truncated.tail)]
    with pytest.raises(Violation, match=r"\(6, b'a', b'of 6'\) is live in"):
        truncated.forgotten(truncated.emptied(truncated.tail), taken=taken)


def test_without_an_accepted_loss_the_partition_is_refused(truncated: Truncated) -> None:
    truncated.new.batches.pop()
    for part in truncated.partition.folder.glob(f"{truncated.next.stem}.*"):
        part.unlink()
    truncated.next = uploaded(truncated.partition, 4, 8)
    truncated.checker.accept_changes(truncated.partition)
    with pytest.raises(Violation, match="although only another history holds"):
        truncated.forgotten(truncated.emptied())
    truncated.forgotten(truncated.emptied(truncated.tail))


def test_a_row_that_the_wrong_step_empties(truncated: Truncated) -> None:
    row = truncated.emptied(truncated.tail)
    for allowed in (None, GONE, Forgetting(topic_id="of another topic")):
        with pytest.raises(Violation, match="a step that must not forget it"):
            truncated.refused(row, allowed)


def test_a_forgotten_row_whose_epoch_falls(truncated: Truncated) -> None:
    with pytest.raises(Violation, match="the epoch fell from 3 to 2"):
        truncated.forgotten(truncated.emptied(truncated.tail, epoch=2))


def test_a_sound_partition_that_is_forgotten(partition: Partition) -> None:
    sound = Truncated(partition)
    sound.next = sound.tail
    for before in (sound.row, None):
        checker = sound.checker = Checker()
        if before is not None:
            checker.check(sound.partition, before, entry_of(sound.partition, before["segments"]))
        with pytest.raises(Violation, match="no leader has truncated its log"):
            sound.forgotten(sound.emptied(sound.tail))


def test_a_forgotten_row_that_alone_names_a_segment_of_tierfold(truncated: Truncated) -> None:
    ours = truncated.partition.folder / f"{0:020d}-{'o' * 22}.log"
    ours.touch()
    with pytest.raises(Violation, match=rf"{ours.name}, which tierfold wrote, is still"):
        truncated.forgotten(truncated.emptied(truncated.tail))


def test_an_upload_of_the_current_leader_that_is_given_up(truncated: Truncated) -> None:
    with pytest.raises(Violation, match=rf"{truncated.next.stem} is given up"):
        truncated.forgotten(truncated.emptied(truncated.tail, truncated.next))


@pytest.mark.parametrize("fields", [{"cleaner_offsets": [5]}, {"retired": [5]}])
def test_a_forgotten_row_that_is_not_empty(
    truncated: Truncated, fields: Mapping[str, Sequence[int]]
) -> None:
    row = truncated.emptied(truncated.tail, **fields)
    row["retired"] = [{"segment": named(truncated.tail)} for _ in row["retired"]]
    with pytest.raises(Violation, match="still has cleaner offsets"):
        truncated.forgotten(row, reason="refused")


# Uploads of a truncated log that must not be deleted.


def vacuumed(truncated: Truncated, row: Entry, candidate: Upload) -> None:
    """Delete the `.log` of `candidate` while status refuses the partition."""
    entry = entry_of(truncated.partition, [], reason="refused")
    delete_log(truncated.checker, truncated.partition, candidate, row, entry, GONE)


def test_a_deleted_upload_of_the_new_log(truncated: Truncated) -> None:
    vacuumed(truncated, truncated.row, uploaded(truncated.partition, 1, 3))
    vacuumed(truncated, truncated.row, uploaded(truncated.partition, 5, 7, log=truncated.old))
    with pytest.raises(Violation, match="is gone, but is part of the current leader's log"):
        vacuumed(truncated, truncated.row, uploaded(truncated.partition, 4, 5))


def test_a_deleted_original_that_a_restore_needs(truncated: Truncated) -> None:
    original = uploaded(truncated.partition, 0, 2)
    row = truncated.row
    row["retired"] = [{"segment": named(original), **RETIRED}]
    vacuumed(truncated, row, original)
    broker.put(truncated.partition, original, NOW_MS)
    row["segments"][0]["written_by_run"] = "a run"
    with pytest.raises(Violation, match="is gone, but a restore needs it"):
        vacuumed(truncated, row, original)
    broker.put(truncated.partition, original, NOW_MS)
    row["retired"][0]["deletion_started_at_ms"] = NOW_MS
    vacuumed(truncated, row, original)


def set_apart(truncated: Truncated, candidate: Upload, deletion: Deletion) -> None:
    """Delete the `.log` of `candidate` while the row follows the new log."""
    row = row_of([named(truncated.head), named(truncated.next)], *truncated.new.lineage)
    entry = entry_of(truncated.partition, row["segments"])
    delete_log(truncated.checker, truncated.partition, candidate, row, entry, deletion)


def test_a_set_apart_upload_is_deleted_only_on_request(truncated: Truncated) -> None:
    with pytest.raises(Violation, match="but no live segment gives its records"):
        set_apart(truncated, truncated.tail, GONE)
    broker.put(truncated.partition, truncated.tail, NOW_MS)
    given_up = replace(GONE, takes_set_apart=True)
    with pytest.raises(Violation, match="too young"):
        set_apart(truncated, truncated.tail, replace(given_up, orphan_age_ms=1))
    broker.put(truncated.partition, truncated.tail, NOW_MS)
    set_apart(truncated, truncated.tail, given_up)


def test_uploads_of_a_refused_row_are_not_set_apart(truncated: Truncated) -> None:
    other = uploaded(truncated.partition, 4, 8, log=truncated.old)
    held = truncated.partition.held()
    assert not is_set_apart(truncated.partition, truncated.row, held, held[other.segment_id])
    row = row_of([named(truncated.head)])
    assert is_set_apart(truncated.partition, row, held, held[other.segment_id])
    assert not is_set_apart(truncated.partition, row, held, held[truncated.next.segment_id])
    torn = uploaded(truncated.partition, 6, 8, log=truncated.old, parts=1)
    held = truncated.partition.held()
    assert not is_set_apart(truncated.partition, row, held, held[torn.segment_id])


def test_an_upload_that_alone_has_shared_records_is_not_set_apart(truncated: Truncated) -> None:
    uploaded(truncated.partition, 8, 9)
    held, row = truncated.partition.held(), row_of([named(truncated.head)])
    del held[truncated.next.segment_id]
    assert not is_set_apart(truncated.partition, row, held, held[truncated.tail.segment_id])


# The model.


def test_a_live_segment_that_a_person_moved_away_is_no_violation(truncated: Truncated) -> None:
    for path in list(truncated.partition.folder.glob(f"{truncated.tail.stem}.*")):
        truncated.partition.move_away(path)
    truncated.checker.accept_changes(truncated.partition)
    truncated.refused(truncated.row)


def test_a_partition_without_a_live_segment_is_refused(partition: Partition) -> None:
    sound = Truncated(partition)
    assert list(refusals(sound.partition, sound.row, [])) == []
    sound.partition.move_away(sound.partition.folder / f"{sound.tail.stem}.log")
    (reason,) = refusals(sound.partition, sound.row, [])
    assert reason.what == "a live segment was moved away"


def test_a_batch_shows_only_that_its_epoch_has_begun(partition: Partition) -> None:
    shown = Truncated(partition)
    new = elected(shown.partition, 6)
    late = uploaded(shown.partition, 8, 9, log=new, parts=2)
    held = [shown.partition.held()[late.segment_id]]
    log = log_in_view(shown.partition, shown.row, held)
    assert (log.lineage, log.batches[7], log.batches[8]) == (
        ((0, 0), (1, 8)),
        shown.old.batches[7],
        new.batches[8],
    )
    assert log_in_view(shown.partition, shown.row, []).lineage == ((0, 0),)
    whole = uploaded(shown.partition, 7, 9).segment_id
    assert log_in_view(shown.partition, shown.row, [shown.partition.held()[whole]]) is new
