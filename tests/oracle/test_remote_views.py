"""Kafka's own classes read the same log after it was copied to a tier and back."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.comparators import equal_logs
from tests.oracle.kafka_lab import KafkaLab
from tests.oracle.remote_views import all_segments, to_local, to_remote, topic_id_of

NOW_MS = 1_700_000_100_000


def test_a_log_survives_the_copy_to_a_tier_and_back(lab: KafkaLab, tmp_path: Path) -> None:
    source = tmp_path / "source" / "t-0"
    made = lab.make(source, seed=3, records=900, txn=3, abort=0.5, epochs=3, segment_bytes="20k")
    folder = to_remote(source, tmp_path, seed=3)
    assert folder.name == "t-0-" + topic_id_of(folder)
    segments = all_segments(folder, made["logEndOffset"] - 1)
    assert len(segments) == made["segments"] - 1 > 3
    view = to_local(segments, tmp_path / "view" / "t-0")
    for part in (*source.glob("*.log"), *source.glob("*index"), source / "leader-epoch-checkpoint"):
        if part.stat().st_size:  # An empty transaction index is not uploaded.
            assert (view / part.name).read_bytes() == part.read_bytes()
    ends = {f"{segment.end_offset + 1:020d}.snapshot" for segment in segments}
    assert {path.name for path in view.glob("*.snapshot")} == ends

    from_source = lab.clean(source, tmp_path / "a" / "t-0", now_ms=NOW_MS)
    from_view = lab.clean(view, tmp_path / "b" / "t-0", now_ms=NOW_MS)
    a, b = (lab.batches(tmp_path / name / "t-0") for name in ("a", "b"))
    assert equal_logs(a, b) == []
    for field in ("endOffset", "producers", "messagesRead"):
        assert from_source[field] == from_view[field]


def test_only_segments_below_the_given_offset_are_uploaded(lab: KafkaLab, tmp_path: Path) -> None:
    source = tmp_path / "source" / "t-0"
    lab.make(source, seed=4, records=600, txn=1, open_txn=True, open_txn_at=0.5, segment_bytes="9k")
    stable = lab.clean(source, tmp_path / "c" / "t-0", now_ms=NOW_MS)["lastStableOffset"]
    folder = to_remote(source, tmp_path / "held", seed=4, below=stable)
    whole = to_remote(source, tmp_path / "whole", seed=4)
    assert folder.name == whole.name
    held, every = (sorted(path.name for path in f.glob("*.log")) for f in (folder, whole))
    assert 0 < len(held) < len(every)
    assert every[: len(held)] == held
    assert int(every[len(held)][:20]) <= stable


def test_an_epoch_checkpoint_has_only_started_epochs(lab: KafkaLab, tmp_path: Path) -> None:
    source = tmp_path / "source" / "t-0"
    lab.make(source, seed=5, records=600, epochs=4, segment_bytes="12k")
    folder = to_remote(source, tmp_path, seed=5)
    counts = [
        int(path.read_text().splitlines()[1])
        for path in sorted(folder.glob("*.leader_epoch_checkpoint"))
    ]
    assert counts[0] == 1
    assert counts == sorted(counts)
    assert counts[-1] == 4
