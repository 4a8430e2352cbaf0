"""Whole tiers in folders, in Aiven's layout and in that of LocalTieredStorage, for tests."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.storage.tiers.aiven_keys import KeyPair
from tests.storage.tiers.aiven_objects import (
    ID,
    OBJECT,
    NotAiven,
    PlainSegment,
    Variant,
    objects_of,
    segment_of,
)

_LOCAL: Final = re.compile(rf"(.+)-(\d+)-({ID})/(\d{{20}})-({ID})\.([a-z_]+)")


def segments_in(
    folder: Path, key_prefix: str = "", keys: Iterable[KeyPair] = ()
) -> list[PlainSegment]:
    """The segments of a tier in a folder, by key; segments without a manifest are left out."""
    keys = tuple(keys)
    objects = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.*"))
        if path.is_file() and OBJECT.search(str(path.relative_to(folder)))
    }
    stems = [key.removesuffix(".rsm-manifest") for key in objects if key.endswith("-manifest")]
    ours = [stem for stem in stems if stem.startswith(key_prefix)]
    return [segment_of(objects, stem, key_prefix, keys) for stem in ours]


def local_segments_in(folder: Path) -> list[PlainSegment]:
    """The segments of a tier of LocalTieredStorage."""
    tier = folder / "kafka-tiered-storage"
    parts: dict[tuple[str, ...], dict[str, bytes]] = {}
    for path in sorted(tier.rglob("*.*")):
        found = _LOCAL.fullmatch(str(path.relative_to(tier)))
        if found is None:
            raise NotAiven(f"{path} is no part of a segment")
        parts.setdefault(found.groups()[:5], {})[found[6]] = path.read_bytes()
    return [
        PlainSegment(
            topic=topic,
            topic_id=topic_id,
            partition=int(number),
            start_offset=int(start),
            segment_id=segment_id,
            parts=of_one,
        )
        for (topic, number, topic_id, start, segment_id), of_one in parts.items()
    ]


def write_aiven(folder: Path, segments: Iterable[PlainSegment], variant: Variant) -> Path:
    """Write segments as the plugin's filesystem backend does; return `folder`."""
    for segment in segments:
        for key, data in objects_of(segment, variant).items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return folder


def write_local(folder: Path, segments: Iterable[PlainSegment]) -> Path:
    """Write segments as LocalTieredStorage does; return `folder`."""
    for segment in segments:
        place = f"{segment.topic}-{segment.partition}-{segment.topic_id}"
        name = f"{segment.start_offset:020d}-{segment.segment_id}"
        (folder / "kafka-tiered-storage" / place).mkdir(parents=True, exist_ok=True)
        for suffix, data in segment.parts.items():
            (folder / "kafka-tiered-storage" / place / f"{name}.{suffix}").write_bytes(data)
    return folder


def aiven_tier(local: Path, folder: Path, variant: Variant) -> Path:
    """Write the segments of a tier of LocalTieredStorage as the plugin would; return `folder`."""
    return write_aiven(folder, local_segments_in(local), variant)


def rotated(manifest: bytes, old: KeyPair, new: KeyPair) -> bytes:
    """A manifest whose data key is wrapped again, by another key pair."""
    found = json.loads(manifest)
    wrapped = base64.b64decode(found["encryption"]["dataKey"].removeprefix(f"{old.key_id}:"))
    again = base64.b64encode(new.wrapped(old.unwrapped(wrapped))).decode()
    found["encryption"]["dataKey"] = f"{new.key_id}:{again}"
    return json.dumps(found, separators=(",", ":")).encode()
