"""Every kind of corruption stops its own partition only, all in one tier and one run.

Each kind has a topic. Its partition 0 is corrupt before the first run; partition 1 becomes corrupt
after a first compaction, in the segment that this wrote. Sound partitions lie beside both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.claims import catalog_of
from tests.jobs.commands import ALWAYS, Ran, status_of, tierfold, told
from tests.jobs.corruptions import DAMAGES, Damage
from tests.jobs.tiers import (
    RECORDS_PER_SEGMENT,
    files_below,
    folder_of,
    key_of,
    latest_updates,
    live_values,
    made_tier,
    put_updates,
)
from tierfold.compaction.model.segments import PartitionKey, PartitionState

NEW, KNOWN = 0, 1
DO_ALL: Final = (*ALWAYS, "--set", "index.interval.bytes=50", "--json")
SOUND: Final = "sound"
Place = tuple[str, int]
STOPS: Final = [
    pytest.param(damage, partition, id=f"{damage.name}-{'known' if partition else 'new'}")
    for damage in DAMAGES
    for partition in (NEW, KNOWN)
    if (damage.without_row if partition == NEW else damage.known) is not None
]
DOES_NOT_MATTER: Final = [
    pytest.param(damage, partition, id=f"{damage.name}-{'known' if partition else 'new'}")
    for damage in DAMAGES
    for partition in (NEW, KNOWN)
    if (damage.without_row if partition == NEW else damage.known) is None
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What happened to the tier, and how it looked at each stage."""

    tier: Path
    damaged: dict[PartitionKey, dict[str, str]]
    """Every file and its digest, after the damage and before the run."""
    before: dict[PartitionKey, PartitionState]
    run: Ran
    seen: dict[PartitionKey, dict[str, str]]
    """Every file and its digest after the run."""
    after: dict[PartitionKey, PartitionState]
    status: dict[Place, dict[str, Any]]
    """After the run and the repair of the tier, to see the live segments."""
    again: Ran
    """The run on the mended tier."""
    status_again: dict[Place, dict[str, Any]]


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    tier = made_tier(tmp_path_factory.mktemp("bad input"))
    catalog = catalog_of(tier)
    topics = [*(damage.name for damage in DAMAGES), SOUND]
    for key in (key_of(topic, KNOWN) for topic in topics):
        put_updates(tier, key, 0)
        put_updates(tier, key, 1)
    first = tierfold("compact", tier, *DO_ALL)
    assert set(first.outcomes.values()) == {"compacted"}
    for topic in topics:
        put_updates(tier, key_of(topic, NEW), 0)
        put_updates(tier, key_of(topic, KNOWN), 2)
    victims = {
        (damage.name, NEW): put_updates(tier, key_of(damage.name, NEW), 1) for damage in DAMAGES
    }
    put_updates(tier, key_of(SOUND, NEW), 1)
    before = catalog.read()
    for damage in DAMAGES:
        key = key_of(damage.name, KNOWN)
        live = before[key].segments[0].segment_id
        (victims[damage.name, KNOWN],) = folder_of(tier, key).glob(f"*{live}.log")
    mends = [_corrupted(damage, log) for damage in DAMAGES for log in _of(damage, victims)]
    keys = [key_of(topic, partition) for topic in topics for partition in (NEW, KNOWN)]
    damaged = {key: files_below(folder_of(tier, key)) for key in keys}
    run = tierfold("compact", tier, *DO_ALL)
    seen, after = {key: files_below(folder_of(tier, key)) for key in keys}, catalog.read()
    for mend in mends:
        mend()
    status = status_of(tier)
    again = tierfold("compact", tier, *DO_ALL)
    return Course(
        tier=tier,
        damaged=damaged,
        before=before,
        run=run,
        seen=seen,
        after=after,
        status=status,
        again=again,
        status_again=status_of(tier),
    )


def _of(damage: Damage, victims: dict[Place, Path]) -> tuple[Path, Path]:
    return victims[damage.name, NEW], victims[damage.name, KNOWN]


def _corrupted(damage: Damage, log: Path) -> Callable[[], None]:
    """Damages the segment; what puts its parts back."""
    parts = {path: path.read_bytes() for path in log.parent.glob(f"{log.stem}.*")}
    damage.corrupt(log)
    corrupted = {path: path.read_bytes() for path in log.parent.glob(f"{log.stem}.*")}
    assert len([path for path in parts if parts[path] != corrupted.get(path)]) == 1

    def mend() -> None:
        for path, content in parts.items():
            path.write_bytes(content)

    return mend


def test_the_exit_code_says_that_a_partition_failed(course: Course) -> None:
    assert course.run.code == 3


@pytest.mark.parametrize("partition", [NEW, KNOWN])
def test_sound_partitions_are_compacted_all_the_same(course: Course, partition: int) -> None:
    assert course.run.outcomes[SOUND, partition] == "compacted"
    segments = 2 if partition == NEW else 3
    assert live_values(course.status[SOUND, partition]) == latest_updates(segments)


@pytest.mark.parametrize(("damage", "partition"), STOPS)
def test_the_reason_names_the_place_and_the_way_out(
    course: Course, damage: Damage, partition: int
) -> None:
    report = course.run.partitions[damage.name, partition]
    assert report["outcome"] in {"failed", "refused"}
    said = damage.without_row if partition == NEW else damage.known
    assert not told(report["reason"], *(said or ())), report["reason"]
    assert "This is a bug" not in report["reason"]


@pytest.mark.parametrize(("damage", "partition"), STOPS)
def test_nothing_of_the_damaged_partition_is_lost_or_changed(
    course: Course, damage: Damage, partition: int
) -> None:
    key = key_of(damage.name, partition)
    assert course.damaged[key].items() <= course.seen[key].items()
    assert not [name for name in course.seen[key] if name.endswith(".staged")]
    row = course.before.get(key)
    if row is not None:
        # A claim adopts new segments; live ones stay live, and none is retired.
        assert course.after[key].segments[: len(row.segments)] == row.segments
        assert course.after[key].retired == row.retired
        assert course.after[key].cleaner_offset == row.cleaner_offset
    live = course.status[damage.name, partition]
    there = {name.partition("-")[2].partition(".")[0] for name in course.damaged[key]}
    assert {segment["id"] for segment in live["segments"]} <= there
    assert live["segments"][0]["start_offset"] == 0
    segments = 2 if partition == NEW else 3
    assert live["segments"][-1]["end_offset"] == segments * RECORDS_PER_SEGMENT - 1


@pytest.mark.parametrize(("damage", "partition"), STOPS)
def test_once_mended_the_partition_is_compacted(
    course: Course, damage: Damage, partition: int
) -> None:
    assert course.again.outcomes[damage.name, partition] == "compacted"
    segments = 2 if partition == NEW else 3
    assert live_values(course.status_again[damage.name, partition]) == latest_updates(segments)


def test_the_run_on_the_repaired_tier_succeeds(course: Course) -> None:
    assert course.again.code == 0
    assert course.again.outcomes[SOUND, KNOWN] == "nothing_to_do"


@pytest.mark.parametrize(("damage", "partition"), DOES_NOT_MATTER)
def test_a_part_that_no_round_needs_is_rebuilt_from_the_log(
    course: Course, damage: Damage, partition: int
) -> None:
    assert course.run.outcomes[damage.name, partition] == "compacted"
    segments = 2 if partition == NEW else 3
    assert live_values(course.status[damage.name, partition]) == latest_updates(segments)
    found = tierfold("verify", course.tier, "--topic", damage.name, "--json")
    assert found.partitions[damage.name, partition]["corruptions"] == []
