"""The four logs of the baseline: 24-byte keys, 10 % distinct, 16 KB batches, 256 MiB segments."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from tests.oracle.kafka_lab import KafkaLab, Option

SEGMENT_BYTES: Final = 256 * 2**20
_SHAPE: Final[dict[str, Option]] = {
    "seed": 11,
    "segment_bytes": SEGMENT_BYTES,
    "key_size": 24,
    "batch_records": 1000,
}


class BenchLog(NamedTuple):
    """A kind of log; at scale 1 it has about 1 GB of uncompressed values."""

    name: str
    title: str
    records: int
    options: dict[str, Option]


_TEXT: Final[dict[str, Option]] = {"value_size": 1024, "value_kind": "text"}
LOGS: Final = (
    BenchLog("raw1k", "none, 1 KB values", 950_000, {"value_size": 1024}),
    BenchLog("raw100", "none, 100 B values", 7_400_000, {"value_size": 100}),
    BenchLog("lz4", "lz4, 1 KB text", 950_000, {**_TEXT, "codec": "lz4"}),
    BenchLog("zstd", "zstd, 1 KB text", 950_000, {**_TEXT, "codec": "zstd"}),
)


def made(log: BenchLog, scale: int, folder: Path) -> Path:
    """The local folder of a log of `scale` gigabytes; the log is made if it is missing."""
    target = folder / f"{log.name}-{scale}g" / "bench-0"
    complete = target.parent / "complete"
    if not complete.exists():
        records = log.records * scale
        size: dict[str, Option] = {"records": records, "keys": records // 10}
        size["max_bytes"] = f"{1000 * scale}m"
        with KafkaLab(jvm_flags=("-Xmx3g",)) as lab:
            lab.make(target, **{**_SHAPE, **size, **log.options})
        complete.touch()
    return target
