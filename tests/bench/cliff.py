"""Whether many keys make a pass slower or larger: `python -m tests.bench.cliff`.

Each log has as many records, of 24-byte keys and 20-byte values. Kafka's cleaner would need several
passes for the last one: its default dedupe buffer (128 MiB) has room for 5 million keys. The limits
are asserted: time per record, and the anonymous memory of each Python worker.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import click

from tests.bench.contenders import fresh_tier, session_start, tierfold_pass
from tests.bench.logs import BenchLog, made
from tests.bench.measures import children_of, spread
from tests.bench.results import printed
from tests.jobs.commands import ROOT

RECORDS: Final = 52_000_000
SLOWDOWN_MAX: Final = 1.5
"""Time per record, elapsed and of all processors, with 50 million keys to that with one million."""

WORKER_BYTES_MAX: Final = 1536 * 2**20

_SHAPE: Final = {"value_size": 20, "key_dist": "seq", "max_bytes": "8000m"}
_KEYS: Final = {"10": 10, "1m": 1_000_000, "50m": 50_000_000}


def log_of(name: str, records: int) -> BenchLog:
    """The log of `records` records on as many keys as its name says."""
    keys = max(1, _KEYS[name] * records // RECORDS) if name != "10" else 10
    return BenchLog(f"keys{name}-{records}", f"{keys} keys", records, {**_SHAPE, "keys": keys})


@dataclass
class WorkerMemory:
    """The largest anonymous memory of one Python worker, sampled by a thread."""

    peak_bytes: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Sample until the block ends."""
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.05):
            for pid in children_of("python"):
                self.peak_bytes = max(self.peak_bytes, _anonymous_bytes(pid))


def _anonymous_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # It has ended.
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def measured(name: str, records: int, runs: int, folder: Path) -> dict[str, object]:
    """One row: warm passes over one log."""
    log = log_of(name, records)
    source = made(log, 1, folder)
    scratch, memory = folder / "scratch", WorkerMemory()
    passes = [tierfold_pass(fresh_tier(source, scratch))]
    with memory.watched():
        passes += [tierfold_pass(fresh_tier(source, scratch)) for _ in range(runs)]
    shutil.rmtree(scratch, ignore_errors=True)
    counted = passes[1:]
    billionths = 1e9 / counted[0].records_in
    return {
        "log": log.title,
        "records": counted[0].records_in,
        "kept": counted[0].records_out,
        "MB in": round(counted[0].bytes_in / 1e6),
        "elapsed s": spread([run.cost.elapsed_s for run in counted]),
        "cpu s": spread([run.cost.cpu_s for run in counted]),
        "ns per record": round(median(run.cost.elapsed_s for run in counted) * billionths),
        "cpu ns per record": round(median(run.cost.cpu_s for run in counted) * billionths),
        "worker MiB": round(memory.peak_bytes / 2**20),
    }


@click.command()
@click.option("--records", type=int, default=RECORDS, help="Records of each log.")
@click.option("--runs", type=int, default=2, help="Counted runs of each log.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "bench")
def bench(records: int, runs: int, folder: Path) -> None:
    """Measure each log, print a JSON object for it, and assert the limits."""
    folder.mkdir(parents=True, exist_ok=True)
    session_start(ROOT / "sample", folder / "scratch")
    rows, results = [], folder / "results.jsonl"
    for name in _KEYS:
        rows.append(measured(name, records, runs, folder))
        printed("cliff", rows[-1], results)
    slowdown = {
        column: float(str(rows[-1][column])) / float(str(rows[-2][column]))
        for column in ("ns per record", "cpu ns per record")
    }
    printed("cliff", {"slowdown": slowdown, "at most": SLOWDOWN_MAX}, results)
    largest = max(int(str(row["worker MiB"])) for row in rows) * 2**20
    if max(slowdown.values()) > SLOWDOWN_MAX or largest > WORKER_BYTES_MAX:
        raise click.ClickException("a limit is passed: time per record, or a worker's memory")


if __name__ == "__main__":
    bench()
