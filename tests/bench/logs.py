"""The four logs of the baseline: 24-byte keys, 10 % distinct, 16 KB batches, 256 MiB segments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.oracle.kafka_lab import KafkaLab, Option

SEGMENT_BYTES: Final = 256 * 2**20
_SHAPE: Final[dict[str, Option]] = {
    "seed": 11,
    "segment-bytes": SEGMENT_BYTES,
    "key-size": 24,
    "batch-records": 1000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchLog:
    """One kind of log; a scale of 1 is about 1 GB of uncompressed values."""

    name: str
    title: str
    records: int
    options: dict[str, Option]


LOGS: Final = (
    BenchLog(
        name="raw1k", title="none, 1 KB values", records=950_000, options={"value-size": 1024}
    ),
    BenchLog(
        name="raw100", title="none, 100 B values", records=7_400_000, options={"value-size": 100}
    ),
    BenchLog(
        name="lz4",
        title="lz4, 1 KB text",
        records=950_000,
        options={"value-size": 1024, "value-kind": "text", "codec": "lz4"},
    ),
    BenchLog(
        name="zstd",
        title="zstd, 1 KB text",
        records=950_000,
        options={"value-size": 1024, "value-kind": "text", "codec": "zstd"},
    ),
)


def made(log: BenchLog, scale: int, folder: Path) -> Path:
    """The log's local folder, `scale` times a gigabyte; made where it is missing."""
    target = folder / f"{log.name}-{scale}g" / "bench-0"
    complete = target.parent / "complete"
    if not complete.exists():
        records = log.records * scale
        sized = {"records": records, "keys": records // 10, "max-bytes": f"{1000 * scale}m"}
        with KafkaLab(jvm_flags=("-Xmx3g",)) as lab:
            lab.make(target, **{**_SHAPE, **sized, **log.options})
        complete.touch()
    return target
