"""`plan --estimate`: what is printed, how little is read, and what stops an estimate."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.jobs.commands import ALWAYS, COMPACT, Ran, tierfold
from tests.jobs.drawn_logs import LOGS, ORDERS, put_drawn
from tests.jobs.tiers import (
    flip_last_byte,
    key_of,
    made_tier,
    put_segment,
    put_updates,
    sample_copy,
)
from tests.storage.legacy_messages import message
from tests.storage.live_segments import data
from tests.storage.tiers.aiven_objects import Variant
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.compaction.estimation.estimate import Estimate, NotEstimated
from tierfold.compaction.estimation.windows import SampleBound
from tierfold.jobs.context.run_context import run_context
from tierfold.jobs.context.scope import Scope
from tierfold.jobs.pipeline.survey import survey
from tierfold.jobs.settings.resolution import resolve
from tierfold.jobs.verbs.estimating import estimates_of
from tierfold.storage.segments.segment_reader import read_segment
from tierfold.storage.tiers.aiven import stored_segment
from tierfold.storage.tiers.remote_tier import Part, SegmentAddress

SETTINGS = ("cleanup.policy=compact",)
SMALL = replace(LOGS[1], records=20_000)


@dataclass(frozen=True)
class CountingTier:
    """A tier that counts the ranges of logs that are read from it."""

    tier: Any
    ranges: list[int]

    def read_range(
        self, address: SegmentAddress, part: Part, start: int, length: int
    ) -> NDArray[np.uint8]:
        """As of the tier."""
        found: NDArray[np.uint8] = self.tier.read_range(address, part, start, length)
        self.ranges.append(len(found))
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tier, name)


def entry_of(ran: Ran) -> dict[str, Any]:
    """The entry of the sample's one partition."""
    return ran.partitions["tiered", 0]


def estimates(
    folder: Path, bound: SampleBound, ranges: list[int], settings: tuple[str, ...] = SETTINGS
) -> dict[str, Estimate | NotEstimated]:
    """The estimates of a tier's partitions by name; `ranges` gets the bytes of each range."""
    context = run_context(str(folder))
    plans = survey(context, resolve(settings), Scope())
    counting = replace(context, tier=CountingTier(context.tier, ranges))
    return {str(key): one for key, one in estimates_of(counting, plans, bound).items()}


def test_text_json_and_csv_say_the_same(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    command = ("plan", tier, *COMPACT, "--estimate")
    ran = tierfold(*command, "--json")
    found = entry_of(ran)["estimate"]
    assert found["is_whole"]
    assert 0.88 < found["saved_share_low"] <= found["saved_share"] <= found["saved_share_high"] < 1
    total = ran.document["estimate"]
    assert {name: total[name] for name in total if name in found} == {
        name: value for name, value in found.items() if name in total
    }
    text = tierfold(*command).stdout
    assert "~ 2.8 MB (89–90 %)" in text
    assert "A run is worth it: at least 89 % of what it reads would go." in text
    grows = "But as set here nothing deletes what a run replaces, so the tier would grow"
    assert grows in text
    assert grows not in tierfold(*command, "--set", "tier.binding=detached").stdout
    (row,) = csv.DictReader(io.StringIO(tierfold(*command, "-o", "csv").stdout))
    assert int(row["estimate.saved_bytes"]) == found["saved_bytes"]
    assert float(row["estimate.usd_per_month_low"]) == found["usd_per_month_low"]
    assert entry_of(tierfold(*command, "--sort", "saves", "--json")) == entry_of(ran)


def test_without_it_nothing_is_estimated(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    ran = tierfold("plan", tier, *COMPACT, "--json")
    assert "estimate" not in ran.document
    assert "estimate" not in entry_of(ran)
    assert "saves" not in tierfold("plan", tier, *COMPACT).stdout


def test_what_compaction_removes_is_in_the_interval_of_the_sample(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    found = entry_of(tierfold("plan", tier, *COMPACT, "--estimate", "--json"))["estimate"]
    detached = ("--set", "tier.binding=detached", "--engine", "local")
    done = entry_of(tierfold("compact", tier, *COMPACT, *detached, "--json"))
    removed = done["bytes_in"] - done["bytes_out"]
    assert found["saved_bytes_low"] <= removed <= found["saved_bytes_high"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--estimate", "--explain", "orders-0"), "--explain draws one: give one of them"),
        (("--sort", "saves"), "--sort saves needs --estimate"),
    ],
)
def test_options_that_make_no_sense_together(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    ran = tierfold("plan", made_tier(tmp_path / "tier"), *COMPACT, *arguments)
    assert ran.code == 2
    assert says in ran.stderr
    assert ran.stdout == ""


def test_a_thousand_segments_cost_no_more_than_the_bound(tmp_path: Path) -> None:
    made_tier(tmp_path / "tier")
    for number in range(1000):
        put_updates(tmp_path / "tier", ORDERS, number)
    ranges: list[int] = []
    found = estimates(tmp_path / "tier", SampleBound(), ranges)["orders-0"]
    assert isinstance(found, Estimate)
    assert not found.is_whole
    assert len(ranges) == found.ranges <= 128
    assert sum(ranges) == found.read_bytes
    # 10 of 11 records of a segment are of five keys that all segments have.
    assert found.low_bytes < 0.8 * found.bytes_in < found.high_bytes


def test_a_large_log_costs_no_more_than_the_bound(tmp_path: Path) -> None:
    size_bytes = put_drawn(tmp_path / "tier", SMALL, 1)
    bound = SampleBound(windows=32, window_bytes=2**14)
    ranges: list[int] = []
    found = estimates(tmp_path / "tier", bound, ranges)["orders-0"]
    assert isinstance(found, Estimate)
    assert len(ranges) <= 32
    assert sum(ranges) == found.read_bytes <= bound.size_bytes < size_bytes / 2


def test_damage_in_what_is_read_stops_the_estimate_of_its_partition_only(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put_updates(tier, ORDERS, 0)
    flip_last_byte(put_updates(tier, ORDERS, 1))
    put_updates(tier, ORDERS, 2)
    put_updates(tier, key_of("sound"), 0)
    ran = tierfold("plan", tier, *ALWAYS, "--estimate", "--json")
    damaged, sound = (entry["estimate"] for entry in ran.document["partitions"])
    assert ran.code == 0
    assert "CRC" in damaged["reason"]
    assert sound["reason"] == ""
    assert ran.document["estimate"]["partitions"] == 1
    text = tierfold("plan", tier, *ALWAYS, "--estimate").stdout
    assert "not estimated: " in text
    assert "1 partition could not be estimated." in text


def test_old_messages_are_not_estimated(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put_segment(tier, ORDERS, [message(0, b"value")], start_offset=0)
    put_segment(tier, ORDERS, [data(1, (b"key", b"value"))], start_offset=1)
    ran = tierfold("plan", tier, *ALWAYS, "--estimate", "--json")
    assert "magic 0 or 1" in ran.entry["estimate"]["reason"]


def test_large_chunks_are_not_decoded_for_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = made_tier(tmp_path / "local")
    put_updates(local, ORDERS, 0)
    put_updates(local, ORDERS, 1)
    tier = aiven_tier(local, tmp_path / "tier", Variant(is_compressed=True))
    ran = tierfold("plan", tier, *ALWAYS, "--estimate", "--json")
    assert ran.entry["estimate"]["saved_bytes"] > 0
    monkeypatch.setattr(stored_segment, "CHUNK_BYTES_HELD", 10)
    ran = tierfold("plan", tier, *ALWAYS, "--estimate", "--json")
    assert "chunks too large to be read in part" in ran.entry["estimate"]["reason"]


def test_a_partition_that_only_its_ratio_keeps_clean_has_an_estimate(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    for number in range(3):
        put_updates(tier, ORDERS, number)
    detached = ("--set", "tier.binding=detached")
    assert tierfold("compact", tier, *ALWAYS, *detached, "--engine", "local").code == 0
    clean = tierfold("plan", tier, *ALWAYS, "--estimate", "--json")
    assert clean.entry["outcome"] == "nothing_to_do"
    assert clean.entry["estimate"] is None
    put_updates(tier, ORDERS, 3)
    ratio = ("--set", "min.cleanable.dirty.ratio=0.99")
    ran = tierfold("plan", tier, *COMPACT, *ratio, "--estimate", "--json")
    assert ran.entry["outcome"] == "nothing_to_do"
    assert ran.entry["estimate"]["saved_bytes"] > 0
    assert ran.document["estimate"]["partitions"] == 0


def test_a_batch_that_claims_too_many_bytes_stops_the_estimate(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    put_updates(tier, ORDERS, 0)
    log = put_updates(tier, ORDERS, 1)
    put_updates(tier, ORDERS, 2)
    content = bytearray(log.read_bytes())
    (_, second, _) = read_segment(bytes(content)).heads.position.tolist()
    content[second + 8] = 0x7F
    log.write_bytes(content)
    ran = tierfold("plan", tier, *ALWAYS, "--estimate", "--json")
    assert "whole batches take" in ran.entry["estimate"]["reason"]


def test_doctor_estimates_what_has_no_policy_and_nothing_of_an_event_log(tmp_path: Path) -> None:
    tier = sample_copy(tmp_path / "tier")
    planned = tierfold("plan", tier, *COMPACT, "--estimate", "--json").document["estimate"]
    command = ("doctor", tier, "--estimate")
    examined = tierfold(*command, "--json")
    assert (examined.code, examined.document["estimate"]) == (0, planned)
    assert "A run is worth it" in tierfold(*command).stdout
    event_log = tierfold(*command, "--set", "cleanup.policy=delete", "--json")
    assert event_log.document["estimate"]["partitions"] == 0
    assert "estimate" not in tierfold("doctor", tier, "--json").document
    tierfold("doctor", "--estimate").refuses("no tier is named")
