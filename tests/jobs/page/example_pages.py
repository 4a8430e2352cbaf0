"""A page of a night with everything in it."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from tierfold.jobs.context.request_prices import storage_price
from tierfold.jobs.page.page_model import (
    Block,
    Day,
    Horizon,
    LastRun,
    Owner,
    Page,
    Problem,
    SegmentMap,
    Skipped,
    Slow,
    Staying,
    Topic,
    Urgency,
)

GB: Final = 10**9
NOW_MS: Final = 1_795_900_000_000
HOUR_MS: Final = 3_600_000
HOSTILE: Final = "</script><script>document.title='taken'</script><b>&\"'"
"""A label; a topic's name can hold none of these characters."""

_REGIONS: Final = (
    *("cleaned", "cleaned, dirty", "dirty", "too young", "unstable", "held for uploads"),
)

_LAST_RUNS: Final = (
    LastRun(
        run="20261129T010000-BTkmzAA0",
        verb="compact",
        started_at_ms=NOW_MS - 5 * HOUR_MS,
        duration_ms=2 * HOUR_MS,
        outcomes={"failed": 3, "refused": 12, "compacted": 812, "nothing_to_do": 4173},
        bytes_in=640 * GB,
        bytes_out=95 * GB,
        cost_usd=1.84,
    ),
    LastRun(
        run="20261129T033000-xY0_aaB1",
        verb="vacuum",
        started_at_ms=NOW_MS - 2 * HOUR_MS,
        duration_ms=HOUR_MS // 4,
        outcomes={"vacuumed": 790, "nothing_to_do": 4210},
        bytes_in=520 * GB,
        bytes_out=0,
        cost_usd=0.31,
    ),
)
_STAYING: Final = (
    Staying(
        size_bytes=545 * GB,
        gone_at_ms=NOW_MS + 20 * HOUR_MS,
        sentence="545 000 000 000 bytes of replaced segments stay until the first"
        " `tierfold vacuum` after 2026-11-30T01:00:00.000Z (the grace period is 1 d)",
    ),
    Staying(
        size_bytes=80 * GB,
        gone_at_ms=None,
        sentence="80 000 000 000 bytes of replaced segments stay until"
        " `compact --publish` has let brokers list them for deletion",
    ),
)


def a_page(*, days: int = 30, topics: int = 15, owner: str = "team=payments") -> Page:
    """The page of 5,000 partitions, after this many days."""
    return Page(
        tier="s3://kafka-tier/production",
        made_at_ms=NOW_MS,
        price=storage_price("s3", None),
        partitions=5000,
        stored_bytes=41_000 * GB,
        problems=_problems(),
        problems_left_out=2,
        last_runs=_LAST_RUNS,
        days=tuple(map(_day, range(days))),
        topics=tuple(_topic(number, owner) for number in range(topics)),
        topics_in_all=412,
        owners=(_owner(owner, 9), _owner("team=search, stage=production", 4), _owner("", 1)),
        owners_in_all=3,
        staying=_STAYING,
        oldest_horizon=Horizon(partition="orders-17", due_at_ms=NOW_MS - 30 * HOUR_MS),
        slowest=tuple(
            Slow(partition=f"orders-{number}", task_ms=(900 - 130 * number) * 1000)
            for number in range(5)
        ),
        skipped=(
            Skipped(run="20261129T010000-BTkmzAA0", asked=48_000, skipped=45_100, read_once=60),
        ),
        maps=tuple(map(_map, range(3))),
    )


def _problems() -> tuple[Problem, ...]:
    return (
        Problem(
            urgency=Urgency.FAILED,
            where="orders-17, orders-18, payments.eu-3",
            partitions=3,
            why="compact failed: s3://kafka-tier/production/orders-17/00000000000000081920.log:"
            " the CRC of the batch at offset 81 934 does not match its bytes",
            remedy="",
        ),
        Problem(
            urgency=Urgency.REFUSED,
            where="12 partitions of clicks",
            partitions=12,
            why="offsets 512 to 1023 are in no segment [gap]",
            remedy="1. If a broker's cleaner left the hole, run `tierfold compact TIER"
            " --holes-are-holes 'clicks-*'`. 2. Otherwise restore the segment from a backup.",
        ),
        Problem(
            urgency=Urgency.BEHIND,
            where="40 partitions of 6 topics",
            partitions=40,
            why="80 000 000 000 bytes of replaced segments may go since 2026-11-26T01:00:00.000Z,"
            " and are still there",
            remedy="Run `tierfold vacuum`; its report says what it could not delete, and why.",
        ),
    )


def _day(number: int) -> Day:
    day = date(2026, 10, 31) + timedelta(days=number)
    size = (400 + 37 * (number * 7 % 11)) * GB
    return Day(
        day=day.isoformat(),
        bytes_in=size,
        bytes_out=size // 6,
        saved_bytes=(number + 1) * 330 * GB,
        freed_bytes=number * 310 * GB,
        cost_usd=1.7 + number % 4 / 10,
        removed={
            "aborted": 30_000_000,
            "superseded": 2_100_000_000 + 1_000_000 * (number * 13 % 700),
            "tombstones_expired": 120_000_000,
        },
        requests={"gets": 410_000 + 9000 * (number % 5), "lists": 9_000, "puts": 61_000},
    )


def _topic(number: int, owner: str) -> Topic:
    name = "customer.profile.changelog.v2" if number == 1 else f"orders.region-{number}"
    return Topic(
        topic=name,
        owner=owner if number % 2 else "team=search, stage=production",
        partitions=64,
        live_bytes=(900 - 50 * number) * GB,
        clean_bytes=500 * GB,
        cleanable_bytes=(400 - 25 * number) * GB,
        delay_ms=(50 - 20 * number) * HOUR_MS if number < 3 else 0,
        retired_bytes=40 * GB,
    )


def _owner(name: str, weight: int) -> Owner:
    return Owner(
        owner=name,
        topics=40 * weight,
        partitions=400 * weight,
        live_bytes=2_000 * weight * GB,
        retired_bytes=50 * weight * GB,
        saved_bytes=700 * weight * GB,
        request_usd=4.2 * weight,
    )


def _map(number: int) -> SegmentMap:
    blocks = tuple(
        Block(
            region=_REGIONS[min(place // 4, 5)],
            action="rewritten" if place < 12 else "waits",
            offsets=f"{place * 4096}–{place * 4096 + 4095}",
            size_bytes=(1 + (place * 5 + number) % 9) * GB,
            segments=1 + place % 3,
            why="the log is dirty from offset 16384 on",
        )
        for place in range(24 - 7 * number)
    )
    return SegmentMap(
        partition=f"orders.region-{number}-17",
        decision="compact up to offset 49151, 12 → 3 segments, dirty: 61 % are dirty",
        size_bytes=sum(block.size_bytes for block in blocks),
        blocks=blocks,
    )
