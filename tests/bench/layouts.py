"""Measures what Aiven's layout costs: each log plain, zstd and encrypted, beside a plain folder.

    python -m tests.bench.layouts --runs 3 --only raw1k

All in one process without Spark, so that ratios compare only how segments are stored. They
take turns, and the first run of each does not count.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from tests.bench.contenders import Passed, fresh_tier, tierfold_pass
from tests.bench.logs import LOGS, BenchLog, made
from tests.bench.measures import spread
from tests.jobs.commands import LOCAL_ENGINE, ROOT
from tests.storage.tiers.aiven_objects import Variant
from tests.storage.tiers.aiven_samples import ENCRYPTED, KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.storage.tiers.layout_options import AS_FOUND, KeyFile, Layout, LayoutOptions

CHUNK_BYTES: Final = 4 << 20
"""The plugin's documentation recommends it."""

VARIANTS: Final = {
    "plain": Variant(chunk_bytes=CHUNK_BYTES),
    "zstd": Variant(chunk_bytes=CHUNK_BYTES, is_compressed=True),
    "encrypted": Variant(chunk_bytes=CHUNK_BYTES, key=ENCRYPTED.keys[0]),
}
WITH_KEY: Final = LayoutOptions(
    layout=Layout.AIVEN, key_files=(KeyFile(key_id="key-1", path=str(KEY_FILE)),)
)


def measured(log: BenchLog, scale: int, runs: int, folder: Path) -> dict[str, object]:
    """One row for each way to store the log."""
    source = made(log, scale, folder)
    scratch = folder / "scratch"
    tiers = {}
    for name, variant in VARIANTS.items():
        shutil.rmtree(scratch / name, ignore_errors=True)
        tiers[name] = aiven_tier(fresh_tier(source, scratch), scratch / name, variant)
    passes: dict[str, list[Passed]] = {name: [] for name in ("folder", *VARIANTS)}
    for _ in range(runs + 1):
        passes["folder"].append(tierfold_pass(fresh_tier(source, scratch), LOCAL_ENGINE))
        for name, tier in tiers.items():
            before = set(tier.rglob("*"))
            layout = WITH_KEY if name == "encrypted" else AS_FOUND
            passes[name].append(tierfold_pass(tier, LOCAL_ENGINE, layout))
            for path in sorted(set(tier.rglob("*")) - before, reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
    shutil.rmtree(scratch, ignore_errors=True)
    kept = {name: found[-1].records_out for name, found in passes.items()}
    if len(set(kept.values())) > 1:
        raise RuntimeError(f"{log.name}: the layouts kept different records: {kept}")
    return {"log": log.title, "scale": scale} | {
        name: _row(found[1:], passes["folder"][1:]) for name, found in passes.items()
    }


def _row(found: list[Passed], folder: list[Passed]) -> dict[str, str]:
    pairs = list(zip(found, folder, strict=True))
    return {
        "elapsed s": spread([run.cost.elapsed_s for run in found]),
        "elapsed ÷ folder": spread([a.cost.elapsed_s / b.cost.elapsed_s for a, b in pairs]),
        "cpu s": spread([run.cost.cpu_s for run in found]),
        "cpu ÷ folder": spread([a.cost.cpu_s / b.cost.cpu_s for a, b in pairs]),
    }


@click.command()
@click.option("--scale", type=int, default=1, help="Gigabytes.")
@click.option("--runs", type=int, default=3, help="Counted runs of each.")
@click.option("--only", multiple=True, help="Only these logs, by name.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "bench")
def bench(scale: int, runs: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    folder.mkdir(parents=True, exist_ok=True)
    for log in LOGS:
        if not only or log.name in only:
            click.echo(json.dumps(measured(log, scale, runs, folder), ensure_ascii=False))
            sys.stdout.flush()


if __name__ == "__main__":
    bench()
