"""One segment by itself: `read_segment`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tierfold.jobs.api.opening import layout_of
from tierfold.jobs.verbs.dump import read_segment as read_tables
from tierfold.storage.segments.segment_tables import SegmentTables


def read_segment(
    path: str | Path,
    *,
    encryption_keys: Mapping[str, str | Path] | Sequence[str] = (),
    decompressed_batch_max_bytes: int = 0,
) -> SegmentTables:
    """Return the batches and records of a `.log` as two Arrow tables.

    A `.log` of Aiven's plugin is decoded if its manifest is beside it; `encryption_keys` are as
    elsewhere. A batch with a bad CRC has `is_valid` false and no records. A compressed batch may
    take `decompressed_batch_max_bytes`; by default 128 MiB, or 256 times its size if that is more.

    Raises UnreadableObject for a file that cannot be read or whose key is missing, CorruptLog for a
    torn batch or records that break a valid one, BadSettings for a key file that cannot be used.

    >>> tierfold.read_segment("00000000000000000000-H9N_Fa3aRd2QvfUuYOXPBQ.log").batches.to_pandas()
    """
    layout = layout_of({"encryption_keys": encryption_keys}).options()
    return read_tables(str(path), layout, decompressed_batch_max_bytes)
