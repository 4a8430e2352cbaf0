"""Layouts of several leaders' uploads end without a gap; Kafka's replicas hold the same batches."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.recipes import LEGACY_FROM, recipe
from tests.oracle.two_leaders import PHASES, Layout, Upload, drawn_layouts

BOUNDARIES = range(0, 300, 3)


def drawn(seed: int) -> Layout:
    return next(drawn_layouts(BOUNDARIES, seed))


def layout_of(*uploads: tuple[int, int, int]) -> Layout:
    """Uploads given as start, end and phase."""
    made = (Upload(leader=0, start=start, end=end, phase=phase) for start, end, phase in uploads)
    return Layout(borders=((0, 30),), uploads=tuple(made))


def test_every_layout_is_readable_to_its_end_and_has_no_gap_at_first() -> None:
    for seed in range(100):
        layout = drawn(seed)
        covered = layout.covered
        assert covered.borders[0] == 0
        assert covered.borders[-1] == covered.ends[-1] == BOUNDARIES[-1]
        assert list(covered.borders) == sorted(set(covered.borders))
        assert covered.waiting[0] == 0 < covered.ends[0]
        assert {upload.phase for upload in layout.uploads} <= set(range(PHASES))
        for upload in layout.uploads:
            assert (upload.start, upload.end) in pairwise(layout.borders[upload.leader])


def test_a_seed_always_gives_the_same_layout() -> None:
    assert drawn(7) == drawn(7)
    assert len({drawn(seed).uploads for seed in range(40)}) == 40


def test_an_upload_starts_effectively_where_those_before_it_end() -> None:
    uploads = ((0, 10, 0), (8, 9, 0), (8, 16, 0), (8, 12, 1), (20, 30, 1), (16, 21, 2))
    covered = layout_of(*uploads).covered
    assert covered.borders == (0, 10, 16, 21, 30)
    assert covered.ends == (16, 16, 30)
    assert covered.waiting == (0, 1, 0)


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        ((8, 14, 0), "chained"),
        ((2, 8, 0), "nested"),
        ((0, 12, 0), "same start"),
        ((2, 10, 0), "same end"),
        ((0, 10, 0), "identical"),
        ((20, 30, 0), "ahead of its predecessor"),
        ((8, 14, 1), "over compacted segments"),
        ((2, 8, 1), "late and redundant"),
    ],
)
def test_each_kind_of_overlap_is_recognized(other: tuple[int, int, int], kind: str) -> None:
    assert kind in layout_of((0, 10, 0), other).kinds
    assert layout_of((0, 10, 0), (10, 14, 0)).kinds == set()


@pytest.mark.parametrize("seed", [1, 7, LEGACY_FROM])
def test_a_replica_with_the_same_borders_has_the_same_files(
    lab: KafkaLab, tmp_path: Path, seed: int
) -> None:
    source, replica = tmp_path / "source" / "t-0", tmp_path / "replica" / "t-0"
    lab.make(source, **recipe(seed))
    borders = sorted(int(log.stem) for log in source.glob("*.log"))
    assert lab.replicate(source, replica, roll_at=borders) == borders
    assert len(borders) > 2
    assert lab.batches(replica) == lab.batches(source)
    assert lab.side_files(replica) == lab.side_files(source)


def test_a_replica_with_other_borders_holds_the_same_batches(lab: KafkaLab, tmp_path: Path) -> None:
    source, replica = tmp_path / "source" / "t-0", tmp_path / "replica" / "t-0"
    end = lab.make(source, seed=3, records=900, txn=3, abort=0.5, segment_bytes="20k")[
        "logEndOffset"
    ]
    batches = lab.batches(source)
    border = batches[len(batches) // 2]["baseOffset"]
    assert lab.replicate(source, replica, roll_at=[border, end]) == [0, border, end]
    copied = lab.batches(replica)
    assert [(b["baseOffset"], b["crc"]) for b in copied] == [
        (b["baseOffset"], b["crc"]) for b in batches
    ]
    assert {b["file"] for b in copied} == {"00000000000000000000.log", f"{border:020d}.log"}
    for line in lab.side_files(replica)["txnindex"]:
        assert (line["lastOffset"] >= border) == (line["file"] == f"{border:020d}.txnindex")
