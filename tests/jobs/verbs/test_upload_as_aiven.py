"""What `upload` writes in Aiven's layout is what Aiven's plugin wrote of the same log directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tierfold
from tests.storage.tiers.aiven_samples import ZSTD
from tierfold.storage.log_dirs.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS

PROPERTIES = """
remote.log.storage.manager.impl.prefix=rsm.config.
rsm.config.chunk.size=131072
rsm.config.compression.enabled=true
rsm.config.key.prefix=cluster-a/tiered/
"""
ACTIVE = 23_871
OF_THE_UPLOAD = ("brokerId", "eventTimestampMs")
"""Fields that say who uploaded the segment, and when."""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The broker's log directory: its own files, and the logs, decoded by the second reader."""
    folder = tmp_path / "data" / "zstd-0"
    shutil.copytree(ZSTD.folder / "local", folder)
    rolled = [segment for segment in ZSTD.segments() if segment.start_offset < ACTIVE]
    for segment in rolled:
        (folder / f"{segment.start_offset:020d}.log").write_bytes(segment.parts["log"])
    for suffix in ("log", "index", "timeindex"):
        (folder / f"{ACTIVE:020d}.{suffix}").touch()
    (partition,) = (ZSTD.bucket / ZSTD.key_prefix).iterdir()
    topic_id = partition.name.removeprefix("zstd-")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (folder.parent / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        (folder.parent / name).write_text(f"0\n1\nzstd 0 {ACTIVE}\n")
    return folder.parent


def objects(folder: Path) -> dict[tuple[int, str], bytes]:
    """The objects of a partition, by start offset and suffix; ids differ."""
    return {(int(file.name[:20]), file.suffix): file.read_bytes() for file in folder.iterdir()}


def of_the_segment(manifest: bytes) -> dict[str, Any]:
    """A manifest without what differs from upload to upload."""
    found: dict[str, Any] = json.loads(manifest)
    segment = found["remoteLogSegmentMetadata"]
    for name in OF_THE_UPLOAD:
        del segment[name]
    del segment["remoteLogSegmentId"]["id"]
    return found


def test_the_objects_are_those_of_the_plugin(logs: Path, tmp_path: Path) -> None:
    (properties := tmp_path / "broker.properties").write_text(PROPERTIES)
    (bucket := tmp_path / "bucket").mkdir()
    done = tierfold.upload(logs, bucket, layout="aiven", rsm_config=properties)
    assert done.outcome == "uploaded", done.reason
    uploaded, by_plugin = (
        objects(next((place / ZSTD.key_prefix).glob("zstd-*/0"))) for place in (bucket, ZSTD.bucket)
    )
    assert uploaded.keys() == {(start, suffix) for start, suffix in by_plugin if start != ACTIVE}
    for (start, suffix), content in uploaded.items():
        if suffix == ".rsm-manifest":
            assert of_the_segment(content) == of_the_segment(by_plugin[start, suffix])
        else:
            assert content == by_plugin[start, suffix], (start, suffix)
