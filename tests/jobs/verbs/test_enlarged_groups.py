"""A run writes several segments for a group that a rewrite enlarges beyond twice segment.bytes.

What was measured at full size, beyond 2 GiB, is in docs/reliability.md.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.jobs.claims import catalog_of
from tests.jobs.commands import ALWAYS, CLOCK, COMPACT, status_of, tierfold
from tests.jobs.scripted_runs import scripted
from tests.jobs.tiers import files_below, folder_of, key_of, made_tier, put_segment
from tests.storage.call_scripts import fails
from tests.storage.legacy_messages import message
from tests.storage.live_segments import an_abort, data, marker
from tests.storage.stored_logs import small_windows
from tierfold.storage.indexes.transaction_index import read_transaction_index
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.segment_reader import read_segment

KEY = key_of("legacy")
MESSAGES = 100
"""Per segment. A message of magic 0 has 28 bytes here, and takes 70 as a batch."""
SEGMENT_BYTES = MESSAGES * 34
DO = (*ALWAYS, "--set", f"segment.bytes={SEGMENT_BYTES}", "--json")


def legacy(start: int, keys: range) -> list[bytes]:
    return [message(start + i, b"v", key=b"%3d" % k, magic=0) for i, k in enumerate(keys)]


def live_logs(tier: Path) -> list[bytes]:
    (state,) = catalog_of(tier).read().values()
    folder = folder_of(tier, KEY)
    return [
        next(folder.glob(f"*{segment.segment_id}.log")).read_bytes() for segment in state.segments
    ]


def two_segments(tier: Path) -> dict[str, str]:
    """Make the tier; return every file of the partition, and its digest."""
    made_tier(tier)
    put_segment(tier, KEY, legacy(0, range(MESSAGES)), start_offset=0)
    put_segment(tier, KEY, legacy(MESSAGES, range(10, 10 + MESSAGES)), start_offset=MESSAGES)
    return files_below(folder_of(tier, KEY))


def test_nothing_is_lost_and_the_next_run_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, 1000)
    tier = tmp_path
    originals = two_segments(tier)
    ran = tierfold("compact", tier, *DO)
    assert (ran.code, ran.outcomes) == (0, {("legacy", 0): "compacted"})
    report = ran.partitions["legacy", 0]
    (state,) = catalog_of(tier).read().values()
    assert report["segments_out"] == len(state.segments) > 2
    assert report["bytes_out"] == sum(segment.size_bytes for segment in state.segments)
    assert report["bytes_out"] > report["bytes_in"]
    assert (state.segments[0].start_offset, state.segments[-1].end_offset) == (0, 199)
    assert all(a.next_offset == b.start_offset for a, b in pairwise(state.segments))
    assert all(segment.size_bytes <= 2 * SEGMENT_BYTES for segment in state.segments)
    records = [
        (record.offset, record.key)
        for log in live_logs(tier)
        for batch in read_segment(log).batches()
        for record in batch.records
    ]
    kept = [(k, b"%3d" % k) for k in range(10)] + [(90 + k, b"%3d" % k) for k in range(10, 110)]
    assert records == kept
    assert tierfold("verify", tier, "--json").code == 0
    # Beside the originals, there is nothing but what is live.
    new = files_below(folder_of(tier, KEY)).keys() - originals.keys()
    live = {segment.segment_id for segment in state.segments}
    assert {name.partition("-")[2].partition(".")[0] for name in new} == live
    again = tierfold("compact", tier, *DO)
    assert again.outcomes == {("legacy", 0): "nothing_to_do"}


def test_each_segment_lists_the_transactions_that_end_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, 1000)
    tier = made_tier(tmp_path)
    aborts = [an_abort(6, 5, 8), an_abort(7, 40, 141), an_abort(8, 142, 150)]
    begun = {entry.first_offset: entry.producer_id for entry in aborts}
    ended = {entry.last_offset: entry.producer_id for entry in aborts}
    batches: list[BatchDraft | bytes] = []
    for offset in range(151):
        if offset in begun:
            batches.append(data(offset, (b"t", b"aborted"), producer_id=begun[offset]))
        elif offset in ended:
            batches.append(marker(offset, ended[offset], ControlType.ABORT))
        else:
            batches += legacy(offset, range(offset, offset + 1))
    put_segment(tier, KEY, batches, start_offset=0, aborted=aborts)
    originals = files_below(folder_of(tier, KEY))
    assert "→ ~" in tierfold("plan", tier, *DO[:-1]).stdout  # An estimate, and too low.
    ran = tierfold("compact", tier, *DO)
    assert ran.outcomes == {("legacy", 0): "compacted"}
    (state,) = catalog_of(tier).read().values()
    first, last = state.segments
    # The second transaction is open at the cut.
    assert aborts[1].first_offset < first.end_offset < aborts[1].last_offset
    listed = [
        read_transaction_index(path.read_bytes(), path.name)
        for segment in (first, last)
        for path in folder_of(tier, KEY).glob(f"*{segment.segment_id}.txnindex")
    ]
    assert listed == [(aborts[0],), (aborts[1], aborts[2])]
    assert tierfold("verify", tier, "--json").code == 0
    new = files_below(folder_of(tier, KEY)).keys() - originals.keys()
    live = {first.segment_id, last.segment_id}
    assert {name.partition("-")[2].partition(".")[0] for name in new} == live
    assert tierfold("compact", tier, *DO).outcomes == {("legacy", 0): "nothing_to_do"}


def test_what_a_failure_leaves_of_several_segments_is_vacuumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_windows(monkeypatch, 1000)
    originals = two_segments(tmp_path)
    folder = folder_of(tmp_path, KEY)

    def is_second_log(key: str) -> bool:
        return key.endswith(".log") and len([*folder.glob("*.log")]) > len(("first", "second"))

    with scripted(fails("open_new").where(is_second_log)):
        failed = tierfold("compact", tmp_path, *DO)
    assert (failed.code, failed.outcomes) == (3, {("legacy", 0): "failed"})
    left = files_below(folder)
    assert originals.items() <= left.items()
    (orphan,) = status_of(tmp_path)["legacy", 0]["orphans"]
    assert {name for name in left if orphan in name} == left.keys() - originals.keys()
    detached = ("--set", "tier.binding=detached")
    # The mark in its id says that this catalog's run wrote it, so brokers never had it.
    for hours, binding, files in ((23, detached, left), (23, (), left), (25, (), originals)):
        now = (CLOCK, str(int((time.time() + 3600 * hours) * 1000)))
        vacuumed = tierfold("vacuum", tmp_path, *now, *COMPACT, *binding, "--json")
        assert vacuumed.code == 0, vacuumed
        assert files_below(folder) == files
    assert tierfold("compact", tmp_path, *DO, *now).outcomes == {("legacy", 0): "compacted"}
    assert tierfold("verify", tmp_path, "--json").code == 0
