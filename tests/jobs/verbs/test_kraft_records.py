"""Control records that end no transaction are kept, and not counted as transaction markers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.commands import Ran, tierfold
from tests.jobs.tiers import key_of, made_tier, put_segment
from tests.storage.live_segments import data, marker
from tierfold.storage.kafka.batch_draft import BatchDraft
from tierfold.storage.kafka.control_records import ControlType


def of_kraft(offset: int, kind: ControlType) -> BatchDraft:
    return replace(marker(offset, -1, kind), is_transactional=False, producer_epoch=-1)


def compact(tier: Path, *arguments: str) -> Ran:
    return tierfold(
        *("compact", tier, "--json", "--set", "cleanup.policy=compact"),
        *("--set", "tier.binding=detached", *arguments),
    )


@pytest.mark.parametrize(
    "kind", [kind for kind in ControlType if kind > ControlType.COMMIT], ids=lambda kind: kind.name
)
def test_kraft_control_records_stay_and_are_no_markers(tmp_path: Path, kind: ControlType) -> None:
    tier = made_tier(tmp_path)
    batches = [
        data(0, (b"k", b"1"), (b"k", b"2")),
        of_kraft(2, kind),
        data(3, (b"k", b"3"), producer_id=5),
        marker(4, 5, ControlType.COMMIT),
        data(5, (b"k", b"4"), (b"l", b"1")),
    ]
    put_segment(tier, key_of("orders"), batches, start_offset=0)
    counts = compact(tier).entry["counts"]
    assert (counts["superseded"], counts["kept"], counts["kept_markers"]) == (3, 4, 1)
    verified = tierfold("verify", tier, "--json").entry
    assert (verified["records"], verified["markers"]) == (4, 1)
