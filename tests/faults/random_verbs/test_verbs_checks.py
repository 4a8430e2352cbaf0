"""The state machine's checker reports each invariant that a test violates by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults.random_verbs import verbs_broker as broker
from tests.faults.random_verbs.verbs_checks import Checker, Deletion, Violation, rows_of
from tests.faults.random_verbs.verbs_expected import STALL_MS, Entry, stalled
from tests.faults.random_verbs.verbs_model import Log, Partition, Upload

NOW_MS = 1_800_000_000_000
RETIRED: dict[str, Any] = {"retired_at_ms": NOW_MS, "deletion_started_at_ms": None}
GONE = Deletion(now_ms=NOW_MS, grace_ms=0, orphan_age_ms=0, is_detached=True)


def append(partition: Partition, offset: int, text: str = "of") -> None:
    value = None if offset == 8 else f"{text} {offset}".encode()
    partition.log.append([(b"ab"[offset % 2 :][:1], value)], NOW_MS)


def uploaded(
    partition: Partition, start: int, end: int, *, log: Log | None = None, parts: int | None = None
) -> Upload:
    log = log or partition.log
    batches = [batch for batch in log.batches if start <= batch.base_offset <= end]
    upload = broker.segment(random.Random(f"{start} {end} {log.epoch}"), partition, log, batches)
    broker.put(partition, upload, NOW_MS, parts=parts)
    return upload


def elected(partition: Partition, start: int) -> Log:
    """Elect the leader of the next epoch, which writes other records from `start` on."""
    log = partition.log.successor(partition.log.epoch + 1, start)
    partition.logs[log.epoch] = log
    for offset in range(start, start + 4):
        append(partition, offset, "of the new leader")
    return log


def named(upload: Upload, start: int | None = None) -> Entry:
    effective = upload.start_offset if start is None else start
    return {
        "segment_id": upload.segment_id,
        "start_offset": effective,
        "end_offset": upload.end_offset,
        "skipped_offsets": effective - upload.start_offset,
        "written_by_run": "",
    }


def row_of(segments: Sequence[Entry], *lineage: tuple[int, int]) -> Entry:
    return {
        "epoch": 3,
        "log_start_offset": segments[0]["start_offset"],
        "segments": list(segments),
        "retired": [],
        "forgotten": [],
        "cleaner_offsets": [],
        "lineage": [{"epoch": e, "start_offset": s} for e, s in lineage or ((0, 0),)],
    }


def entry_of(partition: Partition, segments: Sequence[Entry], **fields: Any) -> Entry:
    shown = []
    for entry in segments:
        stem = partition.uploads[entry["segment_id"]].stem
        shown.append({**entry, "log": str(partition.folder / f"{stem}.log")})
    return {"segments": shown, "reason": "", "orphans": [], "out_of_lineage": [], **fields}


def checked(
    partition: Partition, *segments: Entry, row: Entry | bool | None = True, **fields: Any
) -> None:
    """Check a partition; `row`: None for no row, True for a row with the same segments."""
    known = row_of(segments) if row is True else row or None
    Checker().check(partition, known, entry_of(partition, segments, **fields))


@pytest.mark.parametrize("row", [True, None], ids=["with a row", "without a row"])
def test_a_sound_partition_has_no_violations(partition: Partition, *, row: bool | None) -> None:
    segments = [named(uploaded(partition, 0, 5)), named(uploaded(partition, 3, 9), 6)]
    checked(partition, *segments, row=row)


def test_a_key_that_is_gone_with_its_tombstone_is_sound(partition: Partition) -> None:
    kept = [batch for batch in partition.log.batches if batch.base_offset % 2]
    written = replace_log(partition, uploaded(partition, 0, 9), kept)
    checked(partition, named(written))


def replace_log(partition: Partition, upload: Upload, batches: Sequence[Any]) -> Upload:
    """Replace the batches in the upload's `.log`, as compaction does."""
    lean = broker.segment(random.Random(9), partition, partition.log, batches)
    (partition.folder / f"{upload.stem}.log").write_bytes(lean.parts["log"])
    upload.parts["log"] = lean.parts["log"]
    return upload


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ([1, 3, 5, 7], "key b'b' is (7, b'of 7'), but its newest record is (9, b'of 9')"),
        ([2, 9], "key b'a' is (2, b'of 2'), but its newest record is (8, None)"),
        ([8], "key b'b' is None, but its newest record is (9, b'of 9')"),
    ],
    ids=["an older value", "a deleted key", "a lost key"],
)
def test_a_wrong_newest_record(partition: Partition, kept: list[int], words: str) -> None:
    batches = [batch for batch in partition.log.batches if batch.base_offset in kept]
    written = replace_log(partition, uploaded(partition, 0, 9), batches)
    with pytest.raises(Violation) as found:
        checked(partition, named(written))
    assert words in str(found.value)


def test_a_record_of_another_history(partition: Partition) -> None:
    old = partition.log
    new = elected(partition, 6)
    stale = uploaded(partition, 0, 9, log=old)
    row = row_of([named(stale)], *new.lineage)
    with pytest.raises(Violation, match=r"\(6, b'a', b'of 6'\) is live in"):
        checked(partition, row=row, reason="refused")


def test_a_stale_view_beside_a_sound_row(partition: Partition) -> None:
    first = uploaded(partition, 0, 5)
    old, new = partition.log, elected(partition, 6)
    tail = uploaded(partition, 6, 9, log=old)
    uploaded(partition, 6, 9, log=new)
    with pytest.raises(Violation, match=r"\(6, b'a', b'of 6'\) is live in"):
        checked(partition, named(first), named(tail), row=row_of([named(first)]))


def test_a_lineage_that_no_leader_had(partition: Partition) -> None:
    first = uploaded(partition, 0, 9)
    row = row_of([named(first)], (0, 0), (1, 4))
    partition.logs[1] = partition.log.successor(1, 5)
    partition.logs[1].batches = partition.logs[0].batches
    with pytest.raises(Violation, match="the row's lineage is"):
        checked(partition, row=row, reason="refused")


def test_a_batch_that_straddles_the_effective_start(partition: Partition) -> None:
    partition.log.append([(b"a", b"x"), (b"a", b"y")], NOW_MS)
    segments = [named(uploaded(partition, 0, 10)), named(uploaded(partition, 10, 11), 11)]
    with pytest.raises(Violation, match="straddles offset 11"):
        checked(partition, *segments)


@pytest.mark.parametrize("suffix", ["snapshot", "log"])
def test_a_live_object_that_is_gone(partition: Partition, suffix: str) -> None:
    upload = uploaded(partition, 0, 9)
    path = partition.folder / f"{upload.stem}.{suffix}"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(Violation, match=rf"live object .*\.{suffix} is gone"):
        checked(partition, named(upload))
    partition.damaged[path] = content
    checked(partition, named(upload))


def test_a_refusal_of_a_sound_partition(partition: Partition) -> None:
    first = named(uploaded(partition, 0, 9))
    with pytest.raises(Violation, match="status refuses a sound partition: why not"):
        checked(partition, first, reason="why not")


def test_a_row_whose_log_was_truncated(partition: Partition) -> None:
    first = uploaded(partition, 0, 9)
    uploaded(partition, 6, 9, log=elected(partition, 6), parts=2)
    with pytest.raises(Violation, match="although epoch 1 has other records at live offsets"):
        checked(partition, named(first))
    checked(partition, named(first), reason="it diverged")


@pytest.mark.parametrize(
    ("uploads", "words"),
    [
        ([(0, 3, None), (4, 9, 2)], "although an upload is incomplete without a row"),
        ([(0, 3, None), (6, 9, None)], "although offsets are missing without a row"),
    ],
    ids=["incomplete", "gap"],
)
def test_a_partition_that_must_be_refused_without_a_row(
    partition: Partition, uploads: list[tuple[int, int, int | None]], words: str
) -> None:
    first, *_ = [uploaded(partition, start, end, parts=n) for start, end, n in uploads]
    with pytest.raises(Violation, match=words):
        checked(partition, named(first), row=None)
    checked(partition, row=None, reason="refused")


@pytest.mark.parametrize(("start", "end"), [(0, 7), (4, 9)], ids=["below", "beyond"])
def test_offsets_that_only_another_history_holds_are_refused_without_a_row(
    partition: Partition, start: int, end: int
) -> None:
    old, new = partition.log, elected(partition, 6)
    current = uploaded(partition, 3, 8, log=new)
    uploaded(partition, start, end, log=old)
    with pytest.raises(Violation, match="although only another history holds"):
        checked(partition, named(current), row=None)


def test_an_upload_that_fits_but_is_not_live(partition: Partition) -> None:
    first = uploaded(partition, 0, 5)
    uploaded(partition, 3, 9)
    with pytest.raises(Violation, match="the view ends at 5, but uploads reach 9"):
        checked(partition, named(first))


def test_an_orphan_that_alone_has_records(partition: Partition) -> None:
    first, torn = uploaded(partition, 0, 5), uploaded(partition, 6, 9, parts=2)
    with pytest.raises(Violation, match="is listed as an orphan, but the live log ends at 5"):
        checked(partition, named(first), orphans=[torn.segment_id])
    checked(partition, named(first), orphans=[uploaded(partition, 2, 4).segment_id])


def test_an_upload_of_the_log_that_is_set_apart(partition: Partition) -> None:
    first, other = uploaded(partition, 0, 5), uploaded(partition, 2, 4)
    with pytest.raises(Violation, match="is set apart, but is part of the log"):
        checked(partition, named(first), out_of_lineage=[other.segment_id])


@pytest.mark.parametrize(
    ("change", "left", "words"),
    [
        ({"epoch": 2}, [0, 1, 2], "the epoch fell from 3 to 2"),
        ({"log_start_offset": 4}, [1, 2], "the log start moved from 0 to 4"),
        ({}, [0, 1], "the live end offset fell to 5"),
        ({}, [1, 2], "the first segment does not start at the log start"),
        ({}, [0, 2], "offset 3 is followed by 6"),
    ],
)
def test_a_row_that_goes_back(
    partition: Partition, change: dict[str, int], left: list[int], words: str
) -> None:
    segments = [named(uploaded(partition, *ends)) for ends in ((0, 3), (4, 5), (6, 9))]
    checker, row = Checker(), row_of(segments)
    checker.check(partition, row, entry_of(partition, segments))
    after = {**row, **change, "segments": [segments[i] for i in left]}
    with pytest.raises(Violation, match=words):
        checker.check(partition, after, entry_of(partition, [], reason="refused"))


def test_a_row_that_is_gone(partition: Partition) -> None:
    first = named(uploaded(partition, 0, 9))
    checker, entry = Checker(), entry_of(partition, [first])
    checker.check(partition, row_of([first]), entry)
    with pytest.raises(Violation, match="its row is gone"):
        checker.check(partition, None, entry)
    checker.drop_topic(partition.topic_id)
    checker.check(partition, None, entry)


def delete_log(
    checker: Checker,
    partition: Partition,
    candidate: Upload,
    row: Entry,
    entry: Entry,
    deletion: Deletion | None,
) -> None:
    """Check a step that deletes the `.log` of `candidate` and does not change the row."""
    checker.row[partition.topic_id] = row
    checker.accept_changes(partition)
    (partition.folder / f"{candidate.stem}.log").unlink()
    checker.check(partition, row, entry, deletion)


def gone(
    partition: Partition, candidate: Upload, deletion: Deletion | None, **retired: Any
) -> None:
    """Check a step that deletes the `.log` of `candidate`; offsets 0 to 5 are live."""
    first = uploaded(partition, 0, 5)
    row, entry = row_of([named(first)]), entry_of(partition, [named(first)])
    if retired:
        row["retired"] = [{"segment": named(candidate), **retired}]
    delete_log(Checker(), partition, candidate, row, entry, deletion)


def test_an_upload_may_be_deleted_after_its_grace_period(partition: Partition) -> None:
    gone(partition, uploaded(partition, 2, 4), GONE)
    gone(partition, uploaded(partition, 1, 4), GONE, **RETIRED)
    going = RETIRED | {"deletion_started_at_ms": NOW_MS}
    gone(partition, uploaded(partition, 1, 3), replace(GONE, is_detached=False), **going)


@pytest.mark.parametrize(
    ("retired", "change", "words"),
    [
        ({}, {"orphan_age_ms": 1}, "is gone, but is too young for an orphan"),
        ({}, {"is_detached": False}, "is gone, but a broker may name it"),
        (RETIRED, {"grace_ms": 1}, "is gone within its grace period"),
        (RETIRED, {"is_detached": False}, "is gone, but a broker may name it"),
    ],
)
def test_an_upload_that_is_deleted_too_soon(
    partition: Partition, retired: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    with pytest.raises(Violation, match=words):
        gone(partition, uploaded(partition, 2, 4), replace(GONE, **change), **retired)


def test_a_step_that_must_not_delete_but_does(partition: Partition) -> None:
    with pytest.raises(Violation, match=r"[\w-]+ is gone"):
        gone(partition, uploaded(partition, 2, 4), None)


def test_a_deleted_upload_that_alone_had_records(partition: Partition) -> None:
    for candidate in (uploaded(partition, 4, 7, parts=2), uploaded(partition, 2, 4, parts=1)):
        with pytest.raises(Violation, match="but no live segment gives its records"):
            gone(partition, candidate, GONE)


def test_a_deleted_upload_that_alone_had_truncated_records(partition: Partition) -> None:
    old, new = partition.log, elected(partition, 4)
    first = uploaded(partition, 0, 7, log=new)
    candidate = uploaded(partition, 3, 6, log=old)
    row, entry = row_of([named(first)], *new.lineage), entry_of(partition, [named(first)])
    with pytest.raises(Violation, match="but no live segment gives its records"):
        delete_log(Checker(), partition, candidate, row, entry, GONE)


def test_uploads_that_have_waited_for_a_day(partition: Partition) -> None:
    first = uploaded(partition, 0, 3)
    row, entry = row_of([named(first)]), entry_of(partition, [named(first)])

    def waiting(later_ms: int = STALL_MS) -> list[str]:
        return sorted(stalled(partition, row, entry, partition.held(), NOW_MS + later_ms))

    uploaded(partition, 1, 2)
    assert waiting() == []
    beyond = uploaded(partition, 6, 7)
    assert waiting() == [f"{beyond.stem} (6 to 7)"]
    assert waiting(STALL_MS - 1) == []
    torn = uploaded(partition, 8, 9, parts=1)
    assert waiting() == [f"{beyond.stem} (6 to 7)", f"{torn.stem} (8 to 8)"]
    elected(partition, 5)
    uploaded(partition, 5, 8)
    assert f"{beyond.stem} (6 to 7)" not in waiting()


def test_without_a_catalog_there_are_no_rows(tmp_path: Path) -> None:
    assert rows_of(tmp_path) == {}
