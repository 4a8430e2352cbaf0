"""The checker reports every invariant of `tierfold forget` that a test violates by hand."""

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
    elected,
    entry_of,
    named,
    row_of,
    uploaded,
)
from tests.faults.random_verbs.verbs_checks import Broken, Checker, Deletion, Forgetting
from tests.faults.random_verbs.verbs_expected import (
    Entry,
    is_set_apart,
    log_in_view,
    refusals,
)
from tests.faults.random_verbs.verbs_model import Partition, Upload


class CutOff:
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

    def elects(self) -> None:
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
        """Check a step that forgets, with the segments that discovery would take."""
        taken = fields.pop("taken", [named(self.head), named(self.next)])
        entry = entry_of(self.partition, taken, **fields)
        allowed = Forgetting(topic_id=self.partition.topic_id)
        self.checker.check(self.partition, row, entry, allowed)


@pytest.fixture
def cut_off(partition: Partition) -> CutOff:
    """A row of epoch 0, and the uploads of epoch 1 that conflict with it."""
    found = CutOff(partition)
    found.elects()
    found.refused(found.row)
    return found


def test_a_cut_off_partition_is_forgotten_and_continues_with_the_new_log(cut_off: CutOff) -> None:
    cut_off.forgotten(cut_off.emptied(cut_off.tail))
    taken = [named(cut_off.head), named(cut_off.next)]
    after = row_of(taken, *cut_off.new.lineage)
    cut_off.checker.check(cut_off.partition, after, entry_of(cut_off.partition, taken))
    assert len(cut_off.checker.met["a row was forgotten"]) == 1
    assert len(cut_off.checker.met["a forgotten row went on"]) == 1


def test_the_log_that_was_cut_off_is_not_taken_again(cut_off: CutOff) -> None:
    with pytest.raises(Broken, match=r"\(6, b'a', b'of 6'\) is live in"):
        taken = [named(cut_off.head), named(cut_off.tail)]
        cut_off.forgotten(cut_off.emptied(cut_off.tail), taken=taken)


def test_a_loss_that_was_not_accepted_refuses_the_rest(cut_off: CutOff) -> None:
    cut_off.new.batches.pop()
    for part in cut_off.partition.folder.glob(f"{cut_off.next.stem}.*"):
        part.unlink()
    cut_off.next = uploaded(cut_off.partition, 4, 8)
    cut_off.checker.noticed(cut_off.partition)
    with pytest.raises(Broken, match="though only another history holds"):
        cut_off.forgotten(cut_off.emptied())
    cut_off.forgotten(cut_off.emptied(cut_off.tail))


def test_a_row_that_another_step_empties(cut_off: CutOff) -> None:
    row = cut_off.emptied(cut_off.tail)
    for allowed in (None, GONE, Forgetting(topic_id="of another topic")):
        with pytest.raises(Broken, match="a step that must not forget it"):
            cut_off.refused(row, allowed)


def test_a_forgotten_row_whose_epoch_falls(cut_off: CutOff) -> None:
    with pytest.raises(Broken, match="the epoch fell from 3 to 2"):
        cut_off.forgotten(cut_off.emptied(cut_off.tail, epoch=2))


def test_a_sound_partition_that_is_forgotten(partition: Partition) -> None:
    sound = CutOff(partition)
    sound.next = sound.tail
    for before in (sound.row, None):
        checker = sound.checker = Checker()
        if before is not None:
            checker.check(sound.partition, before, entry_of(sound.partition, before["segments"]))
        with pytest.raises(Broken, match="no leader has cut its log off"):
            sound.forgotten(sound.emptied(sound.tail))


def test_a_forgotten_row_that_alone_names_a_segment_of_tierfold(cut_off: CutOff) -> None:
    ours = cut_off.partition.folder / f"{0:020d}-{'o' * 22}.log"
    ours.touch()
    with pytest.raises(Broken, match=rf"{ours.name} is there, which tierfold wrote"):
        cut_off.forgotten(cut_off.emptied(cut_off.tail))


def test_uploads_of_the_current_leader_are_not_given_up(cut_off: CutOff) -> None:
    with pytest.raises(Broken, match=rf"{cut_off.next.stem} is given up"):
        cut_off.forgotten(cut_off.emptied(cut_off.tail, cut_off.next))


@pytest.mark.parametrize("fields", [{"cleaner_offsets": [5]}, {"retired": [5]}])
def test_a_forgotten_row_that_is_not_empty(
    cut_off: CutOff, fields: Mapping[str, Sequence[int]]
) -> None:
    row = cut_off.emptied(cut_off.tail, **fields)
    row["retired"] = [{"segment": named(cut_off.tail)} for _ in row["retired"]]
    with pytest.raises(Broken, match="still has cleaner offsets"):
        cut_off.forgotten(row, reason="refused")


# Uploads of a truncated log that must not be deleted.


def vacuumed(cut_off: CutOff, row: Entry, candidate: Upload, deletion: Deletion = GONE) -> None:
    cut_off.checker.row[cut_off.partition.topic_id] = row
    cut_off.checker.noticed(cut_off.partition)
    (cut_off.partition.folder / f"{candidate.stem}.log").unlink()
    cut_off.refused(row, deletion)


def test_a_deleted_upload_of_the_new_log_beyond_the_shared_records(cut_off: CutOff) -> None:
    vacuumed(cut_off, cut_off.row, uploaded(cut_off.partition, 1, 3))
    vacuumed(cut_off, cut_off.row, uploaded(cut_off.partition, 5, 7, log=cut_off.old))
    with pytest.raises(Broken, match="is gone, and is the current leader's"):
        vacuumed(cut_off, cut_off.row, uploaded(cut_off.partition, 4, 5))


def test_an_original_that_a_restore_needs(cut_off: CutOff) -> None:
    original = uploaded(cut_off.partition, 0, 2)
    row = cut_off.row
    row["retired"] = [{"segment": named(original), **RETIRED}]
    vacuumed(cut_off, row, original)
    broker.put(cut_off.partition, original, NOW_MS)
    row["segments"][0]["written_by_run"] = "a run"
    with pytest.raises(Broken, match="is gone, and a restore needs it"):
        vacuumed(cut_off, row, original)
    broker.put(cut_off.partition, original, NOW_MS)
    row["retired"][0]["deletion_started_at_ms"] = NOW_MS
    vacuumed(cut_off, row, original)


def set_apart(cut_off: CutOff, candidate: Upload, deletion: Deletion) -> None:
    """Delete the `.log` of `candidate` while the row follows the new log."""
    row = row_of([named(cut_off.head), named(cut_off.next)], *cut_off.new.lineage)
    cut_off.checker.row[cut_off.partition.topic_id] = row
    cut_off.checker.noticed(cut_off.partition)
    (cut_off.partition.folder / f"{candidate.stem}.log").unlink()
    entry = entry_of(cut_off.partition, row["segments"])
    cut_off.checker.check(cut_off.partition, row, entry, deletion)


def test_an_upload_that_is_set_apart_goes_only_if_a_person_asks_for_it(cut_off: CutOff) -> None:
    with pytest.raises(Broken, match="with records that no live segment gives"):
        set_apart(cut_off, cut_off.tail, GONE)
    broker.put(cut_off.partition, cut_off.tail, NOW_MS)
    given_up = replace(GONE, takes_set_apart=True)
    with pytest.raises(Broken, match="too young"):
        set_apart(cut_off, cut_off.tail, replace(given_up, orphan_age_ms=1))
    broker.put(cut_off.partition, cut_off.tail, NOW_MS)
    set_apart(cut_off, cut_off.tail, given_up)


def test_uploads_of_a_refused_row_are_not_set_apart(cut_off: CutOff) -> None:
    other = uploaded(cut_off.partition, 4, 8, log=cut_off.old)
    held = cut_off.partition.held()
    assert not is_set_apart(cut_off.partition, cut_off.row, held, held[other.segment_id])
    row = row_of([named(cut_off.head)])
    assert is_set_apart(cut_off.partition, row, held, held[other.segment_id])
    assert not is_set_apart(cut_off.partition, row, held, held[cut_off.next.segment_id])
    torn = uploaded(cut_off.partition, 6, 8, log=cut_off.old, parts=1)
    held = cut_off.partition.held()
    assert not is_set_apart(cut_off.partition, row, held, held[torn.segment_id])


def test_an_upload_whose_first_records_are_nowhere_else_is_not_set_apart(cut_off: CutOff) -> None:
    uploaded(cut_off.partition, 8, 9)
    held, row = cut_off.partition.held(), row_of([named(cut_off.head)])
    del held[cut_off.next.segment_id]
    assert not is_set_apart(cut_off.partition, row, held, held[cut_off.tail.segment_id])


# The model.


def test_a_live_segment_that_a_person_moved_away_is_not_missing(cut_off: CutOff) -> None:
    for path in list(cut_off.partition.folder.glob(f"{cut_off.tail.stem}.*")):
        cut_off.partition.move_away(path)
    cut_off.checker.noticed(cut_off.partition)
    cut_off.refused(cut_off.row)


def test_a_live_segment_that_was_moved_away_refuses_the_partition(partition: Partition) -> None:
    sound = CutOff(partition)
    assert list(refusals(sound.partition, sound.row, [])) == []
    sound.partition.move_away(sound.partition.folder / f"{sound.tail.stem}.log")
    (reason,) = refusals(sound.partition, sound.row, [])
    assert reason.what == "a live segment was moved away"


def test_a_batch_only_shows_that_its_epoch_has_begun(partition: Partition) -> None:
    shown = CutOff(partition)
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
