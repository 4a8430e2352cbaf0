"""`max.decompressed.message.bytes`: a record beyond it stops its partition, as Kafka's cleaner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import tierfold as api
from tests.jobs.commands import ALWAYS, status_of, tierfold, told
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    made_tier,
    put_segment,
    put_updates,
    records_in,
)
from tests.storage.legacy_messages import message, wrapper
from tests.storage.live_segments import an_abort, data, marker
from tierfold.compaction.model.producers import ProducerEntry
from tierfold.jobs.verbs.dump import dump_lines
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType

LARGE, SMALL = key_of("large"), key_of("small")
SETTING: Final = "max.decompressed.message.bytes"
VALUE: Final = b"v" * 100
PRODUCER: Final = 7
MAGIC_2_BYTES: Final = 108
"""A record with a key of one byte and `VALUE`, without its own length of two bytes: attributes 1,
timestamp delta 1, offset delta 1, key 1 + 1, value 2 + 100, count of headers 1."""
MAGIC_0_BYTES: Final = 115
"""A message like it, without offset and size: checksum 4, magic 1, attributes 1, key 4 + 1,
value 4 + 100."""
MAGIC_1_BYTES: Final = MAGIC_0_BYTES + 8
"""It has a timestamp, too."""


def packed(codec: Codec) -> BatchDraft:
    """Two records, of which the second one is large."""
    return replace(data(0, (b"a", b"old"), (b"b", VALUE)), codec=codec)


def messages(magic: int) -> bytes:
    inner = (message(0, b"old", magic=magic), message(1, VALUE, magic=magic, key=b"b"))
    return wrapper(1, b"".join(inner), magic=magic)


LARGEST: Final = [
    *(pytest.param(packed(codec), MAGIC_2_BYTES, id=codec.name) for codec in Codec if codec),
    pytest.param(messages(0), MAGIC_0_BYTES, id="magic 0"),
    pytest.param(messages(1), MAGIC_1_BYTES, id="magic 1"),
]


def limit(most_bytes: int) -> tuple[str, str]:
    return "--set", f"{SETTING}={most_bytes}"


def tier_of(folder: Path, *batches: BatchDraft | bytes, end: int = 2) -> Path:
    """A topic of these batches, up to offset `end`, and one record more, and another topic."""
    tier = made_tier(folder / "tier")
    put_segment(tier, LARGE, batches, start_offset=0)
    put_segment(tier, LARGE, [data(end, (b"a", b"new"))], start_offset=end)
    put_updates(tier, SMALL, 0)
    put_updates(tier, SMALL, 1)
    return tier


@pytest.mark.parametrize(("batch", "largest_bytes"), LARGEST)
def test_a_record_beyond_the_limit_stops_its_partition(
    tmp_path: Path, batch: BatchDraft | bytes, largest_bytes: int
) -> None:
    tier = tier_of(tmp_path, batch)
    before = files_below(folder_of(tier, LARGE))
    refused = tierfold("compact", tier, *ALWAYS, *limit(largest_bytes - 1), "--json")
    assert refused.code == 3
    assert refused.outcomes == {("large", 0): "failed", ("small", 0): "compacted"}
    reason = refused.partitions["large", 0]["reason"]
    assert not told(
        reason,
        ".log: the batch at byte 0 (base offset 0) holds the record of offset 1, which takes "
        f"{largest_bytes} bytes when decompressed",
        f"{SETTING} allows {largest_bytes - 1}",
        f"set {SETTING} to {largest_bytes} or more",
    ), reason
    assert files_below(folder_of(tier, LARGE)) == before
    allowed = tierfold("compact", tier, *ALWAYS, *limit(largest_bytes), "--json")
    assert (allowed.code, allowed.outcomes["large", 0]) == (0, "compacted")


def test_only_compact_has_the_limit(tmp_path: Path) -> None:
    """Kafka's readers have none: it applies where a broker decompresses."""
    tier = tier_of(tmp_path, packed(Codec.ZSTD))
    for verb in ("plan", "verify", "status"):
        assert tierfold(verb, tier, *ALWAYS, *limit(1), "--json").code == 0, verb
    log = min(folder_of(tier, LARGE).glob("*.log"))
    assert len(list(dump_lines(str(log)))) == 3
    assert len(api.read_segment(log).records) == 2


def test_what_is_not_compressed_has_no_limit(tmp_path: Path) -> None:
    tier = tier_of(tmp_path, packed(Codec.NONE), message(2, VALUE), end=3)
    assert tierfold("compact", tier, *ALWAYS, *limit(1), "--json").code == 0
    (live,) = status_of(tier)["large", 0]["segments"]
    assert [offset for offset, _, _ in records_in([live["log"]])] == [1, 2, 3]


def silent(last_data_offset: int) -> ProducerEntry:
    return ProducerEntry(
        producer_id=PRODUCER,
        epoch=0,
        last_sequence=2,
        last_data_offset=last_data_offset,
        last_offset_delta=0,
        last_timestamp_ms=2**62,
        coordinator_epoch=0,
        current_txn_first_offset=None,
    )


def put_aborted(tier: Path, last_data_offset: int) -> None:
    """Two aborted batches, the one at offset 1 large; the producer's last one is as given."""
    first, second = (
        replace(data(i, (b"b", value), producer_id=PRODUCER), codec=Codec.LZ4)
        for i, value in ((1, VALUE), (2, b"v"))
    )
    batches = [data(0, (b"a", b"old")), first, second, marker(3, PRODUCER, ControlType.ABORT)]
    put_segment(
        tier,
        LARGE,
        batches,
        start_offset=0,
        aborted=[an_abort(PRODUCER, 1, 3)],
        producers=[silent(last_data_offset)],
    )
    put_segment(
        tier, LARGE, [data(4, (b"a", b"new"))], start_offset=4, producers=[silent(last_data_offset)]
    )


@pytest.mark.parametrize(("last_data_offset", "code"), [(2, 0), (1, 3)])
def test_aborted_batches_count_if_they_must_stay(
    tmp_path: Path, last_data_offset: int, code: int
) -> None:
    """Kafka's cleaner drops an aborted batch unread, unless its header stays for the producer."""
    tier = made_tier(tmp_path / "tier")
    put_aborted(tier, last_data_offset)
    ran = tierfold("compact", tier, *ALWAYS, *limit(MAGIC_2_BYTES - 1), "--json")
    assert ran.code == code, ran.stdout
    assert tierfold("compact", tier, *ALWAYS, *limit(MAGIC_2_BYTES), "--json").code == 0


def test_a_marker_counts_if_it_stays(tmp_path: Path) -> None:
    """No broker compresses one, but Kafka's cleaner would read it."""
    end = replace(marker(2, PRODUCER, ControlType.COMMIT), codec=Codec.LZ4)
    tier = tier_of(tmp_path, data(0, (b"a", b"old"), (b"b", b"v")), end, end=3)
    assert tierfold("compact", tier, *ALWAYS, *limit(5), "--json").code == 3
    assert tierfold("compact", tier, *ALWAYS, *limit(50), "--json").code == 0


def by_file(table: str) -> Callable[[Path, int], tuple[str, str]]:
    def given(folder: Path, most_bytes: int) -> tuple[str, str]:
        (folder / "mine.toml").write_text(f'[{table}]\n"{SETTING}" = {most_bytes}\n')
        return "--config", str(folder / "mine.toml")

    return given


@pytest.mark.parametrize("given", [by_file("broker"), by_file('topics."large"')])
def test_a_broker_has_one_for_all_topics_and_a_topic_its_own(
    tmp_path: Path, given: Callable[[Path, int], tuple[str, str]]
) -> None:
    tier = tier_of(tmp_path, packed(Codec.GZIP))
    for most_bytes, code in ((MAGIC_2_BYTES - 1, 3), (MAGIC_2_BYTES, 0)):
        ran = tierfold("compact", tier, *ALWAYS, *given(tmp_path, most_bytes), "--json")
        assert ran.code == code, ran.stdout


@pytest.mark.parametrize("wrong", ["0", "-1", "2147483640"])
def test_the_bounds_are_those_of_kafka_4_4(tmp_path: Path, wrong: str) -> None:
    refused = tierfold("compact", tmp_path, *ALWAYS, "--set", f"{SETTING}={wrong}")
    refused.refuses("a whole number from 1 to 2147483639")


def test_a_segment_that_the_scan_left_to_its_key_index_has_the_limit_once_it_is_rewritten(
    tmp_path: Path,
) -> None:
    tier = made_tier(tmp_path / "tier")
    large = replace(data(0, (b"a", b"1"), (b"a", VALUE)), codec=Codec.ZSTD)
    put_segment(tier, LARGE, [large], start_offset=0)
    put_segment(tier, LARGE, [data(2, (b"c", b"1"), (b"c", b"2"))], start_offset=2)
    apart = ("--set", "segment.bytes=1")
    assert tierfold("compact", tier, *ALWAYS, *apart).code == 0
    put_segment(tier, LARGE, [data(4, (b"d", b"1"))], start_offset=4)
    left = tierfold("compact", tier, *ALWAYS, *apart, *limit(50), "--json")
    assert (left.code, left.partitions["large", 0]["segments_skipped"]) == (0, 2)
    merged = tierfold("compact", tier, *ALWAYS, *limit(50), "--first-dirty", "4", "--json")
    assert merged.code == 3
    assert f"{SETTING} allows 50" in merged.partitions["large", 0]["reason"]
