"""Whether many keys make a pass slower or larger: `python -m tests.bench.cliff`.

All logs have the same number of records, of 24-byte keys and 20-byte values. Kafka's cleaner would
need several passes for the last log: its default dedupe buffer (128 MiB) has room for 5 million
keys. The limits are asserted: time per record, and the anonymous memory of each Python worker.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median
from typing import Final

import click

from tests.bench.contenders import fresh_tier, session_start, tierfold_pass
from tests.bench.logs import BenchLog, made
from tests.bench.measures import peak_of_workers, spread
from tests.bench.options import folder_option
from tests.bench.results import print_row
from tests.oracle.kafka_lab import Option

RECORDS: Final = 52_000_000
SLOWDOWN_MAX: Final = 1.5
"""The limit of time per record, elapsed and CPU: 50 million keys to one million."""

WORKER_BYTES_MAX: Final = 1536 * 2**20

_SHAPE: Final[dict[str, Option]] = {"value_size": 20, "key_dist": "seq", "max_bytes": "8000m"}
_KEYS: Final = {"10": 10, "1m": 1_000_000, "50m": 50_000_000}


def log_of(name: str, records: int) -> BenchLog:
    """A log of `records` records; with fewer than `RECORDS`, it has fewer keys in proportion."""
    keys = max(1, _KEYS[name] * records // RECORDS) if name != "10" else 10
    return BenchLog(f"keys{name}-{records}", f"{keys} keys", records, {**_SHAPE, "keys": keys})


def measured(name: str, records: int, runs: int, folder: Path) -> dict[str, object]:
    """One row: warm passes over one log."""
    log = log_of(name, records)
    source = made(log, 1, folder)
    scratch = folder / "scratch"
    tierfold_pass(fresh_tier(source, scratch))
    with peak_of_workers() as memory:
        passes = [tierfold_pass(fresh_tier(source, scratch)) for _ in range(runs)]
    shutil.rmtree(scratch, ignore_errors=True)
    elapsed_s, cpu_s = zip(*(done.cost for done in passes), strict=True)
    last = passes[-1]
    return {
        "log": log.title,
        "records": last.records_in,
        "kept": last.records_out,
        "MB in": round(last.bytes_in / 1e6),
        "elapsed s": spread(elapsed_s),
        "cpu s": spread(cpu_s),
        "ns per record": round(median(elapsed_s) * 1e9 / last.records_in),
        "cpu ns per record": round(median(cpu_s) * 1e9 / last.records_in),
        "worker MiB": round(memory.peak_bytes / 2**20),
    }


@click.command()
@click.option("--records", type=int, default=RECORDS, help="Records of each log.")
@click.option("--runs", type=int, default=2, help="Counted runs of each log.")
@folder_option
def bench(records: int, runs: int, folder: Path) -> None:
    """Measure each log, print a JSON object for it, and assert the limits."""
    session_start(folder / "scratch")
    rows = []
    for name in _KEYS:
        rows.append(measured(name, records, runs, folder))
        print_row("cliff", rows[-1], folder)
    slowdown = {
        column: float(str(rows[-1][column])) / float(str(rows[-2][column]))
        for column in ("ns per record", "cpu ns per record")
    }
    print_row("cliff", {"slowdown": slowdown, "at most": SLOWDOWN_MAX}, folder)
    largest = max(int(str(row["worker MiB"])) for row in rows) * 2**20
    if max(slowdown.values()) > SLOWDOWN_MAX or largest > WORKER_BYTES_MAX:
        raise click.ClickException("time per record or a worker's memory is above its limit")


if __name__ == "__main__":
    bench()
