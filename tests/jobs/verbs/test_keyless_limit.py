"""A partition that would lose more keyless records than `compact.keyless.max` is unchanged."""

from __future__ import annotations

from pathlib import Path

from tests.jobs.claims import catalog_of
from tests.jobs.commands import ALWAYS, tierfold, told
from tests.jobs.tiers import files_below, folder_of, key_of, made_tier, put_segment, put_updates
from tests.storage.live_segments import data, marker
from tierfold.jobs.pipeline.partition_report import COMPACTED, FAILED
from tierfold.storage.kafka.control_records import ControlType

EVENTS, ORDERS = key_of("events"), key_of("orders")
ABORTED, PARTS = key_of("aborted"), key_of("parts")
NONE: tuple[bytes | None, bytes | None] = (None, b"v")
LIMITS = """
[topics."*"]
"compact.keyless.max" = 0
[topics.parts]
"compact.keyless.max" = 1
"chunk.bytes" = 1
"""


def a_tier(folder: Path) -> Path:
    """One partition of each kind, a record or two without a key in all but `orders`."""
    tier = made_tier(folder)
    put_segment(tier, EVENTS, [data(0, NONE, (b"k", b"v"), NONE)], start_offset=0)
    put_updates(tier, ORDERS, 0)
    # No index lists the abort: only a second scan knows that this record goes for another reason.
    never = [data(0, NONE, producer_id=1), marker(1, 1, ControlType.ABORT), data(2, (b"k", b"v"))]
    put_segment(tier, ABORTED, never, start_offset=0)
    put_segment(tier, PARTS, [data(0, NONE, (b"k", b"v"))], start_offset=0)
    put_segment(tier, PARTS, [data(2, NONE, (b"k", b"w"), NONE)], start_offset=2)
    return tier


def test_more_than_the_limit_stop_their_own_partition_before_anything_is_written(
    tmp_path: Path
) -> None:
    tier = a_tier(tmp_path / "tier")
    config = tmp_path / "mine.toml"
    config.write_text(LIMITS, encoding="utf-8")
    before = files_below(folder_of(tier, EVENTS))
    ran = tierfold("compact", tier, *ALWAYS, "--config", config, "--json")
    assert ran.code == 3
    assert ran.outcomes == {
        ("aborted", 0): COMPACTED,
        ("events", 0): FAILED,
        ("orders", 0): COMPACTED,
        ("parts", 0): FAILED,
    }
    reason = ran.partitions["events", 0]["reason"]
    assert not told(reason, "events-0: 2 of 3 records have no key", "compact.keyless.max allows 0")
    assert files_below(folder_of(tier, EVENTS)) == before
    states = catalog_of(tier).read()
    assert (states[EVENTS].owner_run, states[EVENTS].retired) == ("", ())
    # Chunk by chunk: the first dropped as many as it may, the second would drop more.
    parts = ran.partitions["parts", 0]
    assert not told(parts["reason"], "2 of 4 records have no key")
    assert (states[PARTS].owner_run, states[PARTS].cleaner_offset) == ("", 2)
    assert ran.partitions["aborted", 0]["counts"]["without_key"] == 0
    raised = ("--set", "compact.keyless.max=2", "--topic", "events")
    again = tierfold("compact", tier, *ALWAYS, *raised, "--json")
    assert (again.code, again.partitions["events", 0]["counts"]["without_key"]) == (0, 2)
