"""Names of headers are bytes, and stay as they are."""

from __future__ import annotations

from pathlib import Path

from tests.jobs.commands import status_of, tierfold
from tests.jobs.tiers import key_of, made_tier, put_segment
from tests.storage.live_segments import NOW_MS
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.segments.segment_reader import read_segment

HEADERS = ((b"\xff\xfe", b"1"), (b"a\xc3", None), (b"", b"2"))
"""The first two are not UTF-8. Kafka's cleaner reads a name as text, and writes U+FFFD for them."""


def test_names_that_are_not_utf_8_survive_a_rewrite(tmp_path: Path) -> None:
    tier = made_tier(tmp_path)
    records = tuple(
        RecordDraft(offset=at, timestamp_ms=NOW_MS, key=b"k", value=b"%d" % at, headers=HEADERS)
        for at in range(3)
    )
    batch = BatchDraft(base_offset=0, records=records)
    put_segment(tier, key_of("orders"), [batch], start_offset=0)
    arguments = ("--set", "cleanup.policy=compact", "--set", "tier.binding=detached")
    assert tierfold("compact", tier, *arguments).code == 0
    (segment,) = status_of(tier)["orders", 0]["segments"]
    batches = read_segment(segment["log"]).batches()
    (kept,) = (record for batch in batches for record in batch.records)
    assert (kept.offset, kept.headers) == (2, HEADERS)
