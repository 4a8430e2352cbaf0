"""An offset or time index that cannot be used stops nothing, and a rewrite builds it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.jobs.commands import ALWAYS, Ran, tierfold, told
from tests.jobs.tiers import key_of, live_values, made_tier, put_segment
from tests.storage.live_segments import data, marker
from tierfold.compaction.discovery.listing import ListedSegment
from tierfold.compaction.model.errors import CorruptLog
from tierfold.compaction.model.units import OffsetSpan
from tierfold.jobs.engines import scan
from tierfold.storage.kafka.control_records import ControlType
from tierfold.storage.segments.log_pieces import pieces_of, read_piece
from tierfold.storage.segments.segment_metadata import listed_checkpoint, read_segment_metadata
from tierfold.storage.tiers.tier_uris import open_tier

KEY: Final = key_of("orders")
BATCHES: Final = 20
DETACHED: Final = ("--set", "tier.binding=detached", "--set", "index.interval.bytes=50")


def padded(data: bytes) -> bytes:
    return data + bytes(2400)


def torn(data: bytes) -> bytes:
    return data[:-1]


def rotten(data: bytes) -> bytes:
    return bytes(byte ^ 0xFF for byte in data)


def displaced(data: bytes) -> bytes:
    """Every entry of the offset index one byte too early: right in form."""
    entries = [data[at : at + 8] for at in range(0, len(data), 8)]
    return b"".join(one[:7] + bytes([one[7] - 1]) for one in entries)


CASES: Final = [
    (".index", padded, "ends in 300 entries of zeros"),
    (".timeindex", padded, "ends in 200 entries of zeros"),
    (".index", torn, "is torn"),
    (".timeindex", torn, "is torn"),
    (".index", rotten, "is negative or not above"),
    (".timeindex", rotten, "is negative or not above"),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a tier's only segment; of it compaction drops nothing."""
    batches = [data(i, (f"k{i}".encode(), b"v")) for i in range(BATCHES)]
    return put_segment(made_tier(tmp_path / "tier"), KEY, batches, start_offset=0)


def changed(log: Path, part: str, change: Callable[[bytes], bytes]) -> Path:
    path = log.with_suffix(part)
    path.write_bytes(change(path.read_bytes()))
    return log.parents[2]


def compacted(tier: Path, *arguments: str) -> Ran:
    return tierfold("compact", tier, *ALWAYS, *DETACHED, "--json", *arguments)


@pytest.mark.parametrize(("part", "change", "corruption"), CASES)
def test_compact_notes_it_and_builds_it_again(
    log: Path, part: str, change: Callable[[bytes], bytes], corruption: str
) -> None:
    tier = changed(log, part, change)
    found = tierfold("verify", tier, *DETACHED, "--json")
    assert found.code == 3
    (said,) = found.entry["corruptions"]
    assert not told(said, part, corruption, "tierfold compact"), said
    entry = compacted(tier).ends_alone(0, "compacted")
    (note,) = [note for note in entry["notes"] if "corrupt index" in note]
    assert not told(note, corruption, "builds it again from the .log"), note
    assert len(live_values(tierfold("status", tier, "--json", "--segments").entry)) == BATCHES
    assert tierfold("verify", tier, *DETACHED, "--json").entry["corruptions"] == []
    assert compacted(tier).entry["outcome"] == "nothing_to_do"


def test_the_way_out_of_one_in_a_clean_partition(log: Path) -> None:
    tier = log.parents[2]
    assert compacted(tier).code == 0
    changed(log, ".timeindex", padded)
    listed = tierfold("status", tier, "--json", "--segments").entry["segments"]
    assert [segment["log"] for segment in listed] == [str(log)]
    said = tierfold("verify", tier, *DETACHED, "--json").entry["corruptions"]
    assert not told(said[-1], "ends in 200 entries", "tierfold compact --first-dirty 0"), said
    assert compacted(tier).entry["outcome"] == "nothing_to_do"
    compacted(tier, "--first-dirty", "0").ends_alone(0, "compacted")
    assert tierfold("verify", tier, *DETACHED, "--json").entry["corruptions"] == []


def test_one_that_is_right_in_form_alone_is_noted_and_built_again(log: Path) -> None:
    tier = changed(log, ".index", displaced)
    entry = compacted(tier).ends_alone(0, "compacted")
    assert any("the offset index does not fit the log" in note for note in entry["notes"])
    assert tierfold("verify", tier, *DETACHED, "--json").entry["corruptions"] == []


@pytest.mark.parametrize("is_sent", [False, True], ids=["outline stays", "outline sent"])
@pytest.mark.parametrize("has_transaction", [False, True])
def test_one_wrong_entry_is_enough(
    tmp_path: Path, has_transaction: bool, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No header that the survey reads shows it; the scan, or the rewrite, has all of them."""
    if not is_sent:
        monkeypatch.setattr(scan, "is_worth_sending", lambda *_: False)
    end = [data(BATCHES, (b"t", b"v"), producer_id=7), marker(BATCHES + 1, 7, ControlType.COMMIT)]
    batches = [data(i, (f"k{i}".encode(), b"v")) for i in range(BATCHES)]
    batches += end if has_transaction else []
    log = put_segment(made_tier(tmp_path / "tier"), KEY, batches, start_offset=0)
    tier = changed(log, ".index", lambda entries: displaced(entries[:8]) + entries[8:])
    found = tierfold("verify", tier, *DETACHED, "--json").entry["corruptions"]
    assert not told(found[0], "1 of", "entries are wrong")
    compacted(tier).ends_alone(0, "compacted")
    assert tierfold("verify", tier, *DETACHED, "--json").entry["corruptions"] == []
    assert compacted(tier).entry["outcome"] == "nothing_to_do"


def read(log: Path, wanted: OffsetSpan) -> list[int]:
    """The offsets that a reader finds, in pieces of 200 bytes."""
    tier = open_tier(str(log.parents[2]))
    (listed,) = tier.listing(KEY)
    assert isinstance(listed, ListedSegment)
    checkpoint = listed_checkpoint(tier, KEY, listed)
    segment = read_segment_metadata(tier, KEY, listed, checkpoint).segment
    return [
        offset
        for piece in pieces_of(tier, KEY, segment, wanted, (), 200)
        for chosen in read_piece(tier, piece)
        for offset in chosen.records.offset[chosen.rows].tolist()
    ]


@pytest.mark.parametrize(("part", "change", "_"), CASES)
def test_records_are_read(log: Path, part: str, change: Callable[[bytes], bytes], _: str) -> None:
    changed(log, part, change)
    assert read(log, OffsetSpan(start=5, end=15)) == list(range(5, 15))


def test_a_reader_that_one_misled_says_how_to_find_out_and_to_go_on(
    log: Path, tmp_path: Path
) -> None:
    tier = changed(log, ".index", displaced)
    with pytest.raises(CorruptLog) as caught:
        read(log, OffsetSpan(start=5, end=15))
    assert not told(str(caught.value), "`tierfold verify` says whether", "--first-dirty 0")
    (said,) = tierfold("verify", tier, *DETACHED, "--json").entry["corruptions"]
    assert not told(said, ".index", "entries are wrong")
    compacted(tier, "--first-dirty", "0").ends_alone(0, "compacted")
    (new,) = tierfold("status", tier, "--json", "--segments").entry["segments"]
    (alone := tmp_path / "alone" / log.parents[1].name / log.parent.name).mkdir(parents=True)
    for path in log.parent.glob(f"*{new['id']}.*"):
        shutil.copy(path, alone)
    assert read(alone / Path(new["log"]).name, OffsetSpan(start=5, end=15)) == list(range(5, 15))
