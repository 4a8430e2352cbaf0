"""`verify` accepts sound logs, reports every kind of corruption and writes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.commands import LOCAL_ENGINE, tierfold
from tests.jobs.scripted_runs import scripted
from tests.storage.call_scripts import fails
from tests.storage.live_segments import (
    EPOCHS,
    INTERVAL_BYTES,
    KEY,
    a_tier,
    an_abort,
    data,
    marker,
    part_file,
    put_segment,
)
from tierfold.compaction.model.cleaner_vectors import CLEANER_OFFSETS_KEPT
from tierfold.compaction.model.errors import UnreadableObject
from tierfold.compaction.model.rules import Rules
from tierfold.compaction.model.segments import (
    CleanerOffset,
    PartitionState,
    RetiredSegment,
    Segment,
)
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.engines import task_assignment
from tierfold.jobs.pipeline.known_partition import KnownPartition
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.verified import Verified
from tierfold.jobs.verbs.verify import Extent, verify
from tierfold.jobs.verbs.verify_targets import target_of
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.tiers.local_tiered_storage import LocalTieredStorage, partition_folder
from tierfold.storage.tiers.remote_tier import Part

FIRST = (
    data(0, (b"a", b"1"), (b"b", b"2")),
    data(2, (b"a", b"3"), producer_id=7),
    marker(3, 7, ControlType.ABORT),
    data(4, (b"c", b"5"), (b"d", None)),
)
SECOND = (
    data(6, (b"b", b"4")),
    data(7, (b"c", None)),
    data(8, (b"e", b"9")),
    data(9, (b"f", b"1"), producer_id=9),  # Nothing decides it yet.
)
ABORTED = (an_abort(7, 2, 3),)
A, B, C, E, F = (data(0, (b"a", b"1")), *SECOND)
"""What compaction keeps: `C` a tombstone that may go, of `d` nothing is left."""

ALL = Scope()


def a_state(live: Sequence[Segment], retired: Sequence[Segment] = ()) -> PartitionState:
    return PartitionState(
        key=KEY,
        epoch=0,
        owner_run="",
        cleaner_offsets=(),
        log_start_offset=live[0].start_offset,
        segments=tuple(live),
        lineage=EPOCHS,
        retired=tuple(
            RetiredSegment(
                segment=segment, retired_at_ms=1, retired_by_epoch=1, retired_by_run="run-1"
            )
            for segment in retired
        ),
    )


class Stage:
    """A tier with two segments that a broker wrote, and the catalog that a test wants."""

    def __init__(self, folder: Path, *, listed: bool = True) -> None:
        self.folder = folder
        self.tier: LocalTieredStorage = a_tier(folder)
        aborted = ABORTED if listed else ()
        self.originals = (
            put_segment(self.tier, FIRST, offsets=(0, 5), aborted=aborted),
            put_segment(self.tier, SECOND, offsets=(6, 9)),
        )

    def rewrite(self, *batches: BatchDraft, end_offset: int = 9) -> Segment:
        """One segment in place of both."""
        return put_segment(self.tier, batches, offsets=(0, end_offset), run="run-1")

    def catalogue(self, live: Sequence[Segment], retired: Sequence[Segment]) -> None:
        run_context(str(self.folder), None, None).catalog.claim(
            [a_state(live, retired)], "run-1", at_ms=1
        )

    def file(self, segment: Segment, part: Part) -> Path:
        return part_file(self.tier, segment, part)

    def spoil(self, segment: Segment, part: Part) -> None:
        """Flip the last bit of a part."""
        path = self.file(segment, part)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

    def verify(self, **how: Any) -> Verified:
        (found,) = verified(self.folder, **how)
        return found


def verified(
    folder: Path,
    *,
    scope: Scope = ALL,
    interval_bytes: int = INTERVAL_BYTES,
    second_opinion: bool = False,
) -> list[Verified]:
    settings = resolve([f"index.interval.bytes={interval_bytes}"])
    extent = Extent(second_opinion=second_opinion)
    how = {"extent": extent, "engine": LOCAL_ENGINE}
    context = run_context(str(folder), None, None)
    return verify(context, settings, scope, **how)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "tier")


def test_what_brokers_wrote_is_sound_without_a_catalog(stage: Stage) -> None:
    found = stage.verify()
    assert found.corruptions == ()
    assert (found.segments, found.batches, found.records) == (2, 8, 10)
    assert found.bytes_read == sum(original.size_bytes for original in stage.originals)
    assert found.index_entries == sum(
        original.offset_index_bytes // 8 + original.time_index_bytes // 12
        for original in stage.originals
    )
    assert found.keys_compared is None
    assert found.notes == ("not compared: nothing was rewritten since the upload",)


@pytest.mark.parametrize("kept", [(A, B, C, E, F), (A, B, E, F)])
def test_a_rewritten_log_reads_like_its_originals(
    stage: Stage, kept: tuple[BatchDraft, ...]
) -> None:
    stage.catalogue([stage.rewrite(*kept)], stage.originals)
    found = stage.verify()
    assert (found.corruptions, found.notes) == ((), ())
    assert found.keys_compared == 6
    assert (found.segments, found.batches) == (1, len(kept))


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ((A, B, C, F), "key 0x65 had a value of 1 bytes (offset 8), has none"),
        ((A, B, data(8, (b"e", b"8")), F), "key 0x65 had a value of 1 bytes (offset 8), has a"),
        ((A, B, data(8, (b"e", None)), F), "key 0x65 had a value of 1 bytes (offset 8), has a t"),
        ((A, data(4, (b"c", b"5")), B, E, F), "key 0x63 had a tombstone (offset 7), has a value"),
        ((data(2, (b"a", b"3")), B, E, F), "key 0x61 had a value of 1 bytes (offset 0), has a"),
        ((A, data(1, (b"z", b"0")), B, E, F), "key 0x7a had no record, has a value of 1 bytes"),
    ],
)
def test_a_key_whose_value_changed_is_a_fault(
    stage: Stage, kept: tuple[BatchDraft, ...], told: str
) -> None:
    stage.catalogue([stage.rewrite(*kept)], stage.originals)
    (fault,) = stage.verify().corruptions
    assert "1 of " in fault
    assert told in fault


def test_a_segment_that_is_live_still_counts_on_both_sides(stage: Stage) -> None:
    first, second = stage.originals
    kept = data(0, (b"a", b"1"), (b"b", b"2")), data(4, (b"c", b"5"))
    rewritten = put_segment(stage.tier, kept, offsets=(0, 5), run="run-1")
    stage.catalogue([rewritten, second], [first])
    found = stage.verify()
    assert (found.corruptions, found.notes, found.keys_compared) == ((), (), 6)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"strategies": ("timestamp",), "log_start_offset": 6},
            "compacted by timestamp, and records that have expired since may have superseded later",
        ),
        (
            {
                "strategies": ("header=v",),
                "cleaner_offsets": tuple(
                    CleanerOffset(epoch=i, offset=10) for i in range(CLEANER_OFFSETS_KEPT)
                ),
            },
            "compacted by header=v in more than 64 runs",
        ),
        ({"strategies": ("newest",)}, "compacted by newest, which this version of tierfold"),
        (
            {"strategies": ("offset", "timestamp")},
            "compacted by offset, then by timestamp: removed records do not return",
        ),
    ],
)
def test_where_the_latest_record_cannot_be_known_keys_are_not_compared(
    stage: Stage, changes: dict[str, Any], why: str
) -> None:
    context = run_context(str(stage.folder), None, None)
    whole = a_state([stage.rewrite(A, B, C, E, F)], stage.originals)
    for state, is_compared in ((whole, True), (replace(whole, **changes), False)):
        known = KnownPartition(
            key=KEY, state=state, refusal=None, listed=context.tier.listing(KEY)
        )
        found = target_of(context, known, Rules(index_interval_bytes=INTERVAL_BYTES))
        assert (found.before is not None, found.corruptions) == (is_compared, ())
    assert found.notes[0].startswith(f"not compared: {why}")


def test_many_buckets_say_the_same(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_assignment, "BUCKET_BYTES", 50)
    stage.catalogue([stage.rewrite(A, B, F)], stage.originals)
    found = stage.verify()
    assert found.keys_compared == 6
    assert "1 of 6 keys have another latest value" in found.corruptions[0]


@pytest.mark.parametrize("part", [Part.LOG, Part.TRANSACTION_INDEX])
def test_originals_that_are_gone_are_a_note(stage: Stage, part: Part) -> None:
    stage.catalogue([stage.rewrite(A, B, E, F)], stage.originals)
    stage.file(stage.originals[0], part).unlink()
    found = stage.verify(second_opinion=True)
    assert (found.corruptions, found.keys_compared) == ((), None)
    assert found.notes == (
        "not compared: 1 of 2 original segments are gone",
        "no second opinion: the keys are not compared",
    )


@pytest.mark.parametrize("kept", ["the first", "the last", "all but the middle"])
def test_originals_must_cover_what_is_live(stage: Stage, kept: str) -> None:
    first, last = stage.originals
    retired = {
        "the first": [first],
        "the last": [last],
        "all but the middle": [first, put_segment(stage.tier, SECOND[1:], offsets=(7, 9))],
    }
    stage.catalogue([stage.rewrite(A, B, E, F)], retired[kept])
    found = stage.verify()
    assert (found.corruptions, found.keys_compared) == ((), None)
    *foreign, note = found.notes
    assert note == "not compared: some original segments are gone"
    # Segments that the catalog does not name as retired are still there, and are reported.
    assert all("no run of ours wrote it" in segment for segment in foreign)


@pytest.mark.parametrize("part", [Part.LOG, Part.TRANSACTION_INDEX])
def test_a_damaged_original_is_a_note(stage: Stage, part: Part) -> None:
    stage.catalogue([stage.rewrite(A, B, E, F)], stage.originals)
    path = stage.file(stage.originals[0], part)
    path.write_bytes(path.read_bytes()[:-1])
    found = stage.verify()
    assert (found.corruptions, found.keys_compared) == ((), None)
    (note,) = found.notes
    assert note.startswith("not compared: ")
    assert path.name in note


def test_a_damaged_live_log_is_a_fault_and_ends_the_comparison(stage: Stage) -> None:
    rewritten = stage.rewrite(A, B, E, F)
    stage.catalogue([rewritten], stage.originals)
    stage.spoil(rewritten, Part.LOG)
    found = stage.verify()
    (fault,) = found.corruptions
    assert "bad CRC" in fault
    assert found.keys_compared is None
    assert found.notes == ("not compared: a live segment could not be read",)


def test_an_abort_that_no_index_lists_is_a_fault(tmp_path: Path) -> None:
    (fault,) = Stage(tmp_path / "tier", listed=False).verify().corruptions
    assert fault.startswith("aborted transactions that no transaction index lists: 1 ")
    assert "producer 7, offsets 2 to 3" in fault


def test_an_abort_of_which_nothing_is_left_need_not_be_listed(stage: Stage) -> None:
    kept = (A, marker(3, 7, ControlType.ABORT), B, E, F)
    stage.catalogue([stage.rewrite(*kept)], stage.originals)
    assert stage.verify().corruptions == ()


def test_unindexed_aborts_of_originals_are_trusted(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "tier", listed=False)
    stage.catalogue([stage.rewrite(A, B, E, F)], stage.originals)
    found = stage.verify(second_opinion=True)
    assert (found.corruptions, found.keys_compared, found.second_opinion) == ((), 6, None)
    assert found.notes[-1].startswith("no second opinion: Spark would read aborted records")


def test_a_live_transaction_index_that_cannot_be_read_is_reported_once(stage: Stage) -> None:
    path = stage.file(stage.originals[0], Part.TRANSACTION_INDEX)
    path.write_bytes(path.read_bytes()[:-1])
    found = stage.verify()
    (fault,) = found.corruptions
    assert path.name in fault
    assert found.notes == ("not compared: a live transaction index cannot be read",)


def test_the_last_live_segment_must_end_in_a_batch_and_only_that(stage: Stage) -> None:
    first = put_segment(stage.tier, [A], offsets=(0, 5), run="run-1")
    second = put_segment(stage.tier, [B, E], offsets=(6, 9), run="run-1")
    stage.catalogue([first, second], ())
    (fault,) = stage.verify().corruptions
    assert second.segment_id in fault
    assert "ends at offset 8, the live range at 9: readers get stuck at the gap" in fault


def test_an_index_of_another_interval_is_a_note(stage: Stage) -> None:
    found = stage.verify(interval_bytes=1)
    assert found.corruptions == ()
    assert "the indexes of 2 of 2 segments are correct, but not those" in found.notes[1]
    assert "index.interval.bytes=1" in found.notes[1]


def test_a_partition_that_cannot_be_understood_is_a_fault_and_the_others_go_on(
    stage: Stage,
) -> None:
    folder = stage.folder / partition_folder(KEY)
    shutil.copytree(folder, folder.with_name(folder.name.replace("-0-", "-1-", 1)))
    stage.file(stage.originals[1], Part.SNAPSHOT).unlink()
    refused, sound = verified(stage.folder)
    assert "lacks .snapshot" in refused.corruptions[0]
    assert refused.segments == 0
    assert (sound.key.partition, sound.corruptions, sound.records) == (1, (), 10)
    assert [
        report.key.partition for report in verified(stage.folder, scope=Scope(partitions=("1",)))
    ] == [1]


def test_a_partition_that_cannot_be_read_is_refused_and_not_corrupt(stage: Stage) -> None:
    folder = stage.folder / partition_folder(KEY)
    shutil.copytree(folder, folder.with_name(folder.name.replace("-0-", "-1-", 1)))
    denied = UnreadableObject("no permission", where="the folder", remedy="Grant it.")
    with scripted(fails("list", denied).where(lambda key: f"-0-{KEY.topic_id}" in key)):
        ran = tierfold("verify", stage.folder, "--json")
    assert ran.code == 3
    refused, sound = ran.entries
    assert (refused["outcome"], refused["corruptions"]) == ("refused", [])
    assert [part["code"] for part in refused["refusals"]] == ["unreadable"]
    assert (sound["outcome"], sound["records"]) == ("sound", 10)


def test_a_log_of_another_size_than_the_catalog_says_is_a_fault(stage: Stage) -> None:
    rewritten = stage.rewrite(A, B, E, F)
    stage.catalogue([rewritten], stage.originals)
    path = stage.file(rewritten, Part.LOG)
    path.write_bytes(path.read_bytes()[:-1])
    (fault,) = stage.verify().corruptions
    assert f"the catalog says {rewritten.size_bytes}" in fault


def test_live_segments_chain_without_a_hole(stage: Stage) -> None:
    later = put_segment(stage.tier, SECOND[1:], offsets=(7, 9))
    context = run_context(str(stage.folder), None, None)
    state = a_state([stage.originals[0], later])
    known = KnownPartition(key=KEY, state=state, refusal=None, listed=context.tier.listing(KEY))
    (fault,) = target_of(context, known, Rules(index_interval_bytes=INTERVAL_BYTES)).corruptions
    assert "ends at offset 5" in fault
    assert "starts at 7" in fault


def test_nothing_is_written(stage: Stage) -> None:
    before = sorted(stage.folder.rglob("*"))
    stage.verify()
    assert sorted(stage.folder.rglob("*")) == before
    stage.catalogue([stage.rewrite(A, B, E, F)], stage.originals)
    files = {path: path.read_bytes() for path in stage.folder.rglob("*") if path.is_file()}
    stage.verify()
    assert files == {path: path.read_bytes() for path in stage.folder.rglob("*") if path.is_file()}


def test_an_empty_tier_has_nothing_to_verify(tmp_path: Path) -> None:
    a_tier(tmp_path / "empty")
    assert verified(tmp_path / "empty") == []
