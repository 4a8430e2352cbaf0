"""What Aiven's layout costs: each log plain, in zstd and encrypted, beside a plain folder.

    python -m tests.bench.layouts --runs 3 --only raw1k

All passes run in one process without Spark, so that ratios compare only how segments are stored.
The layouts take turns, and the first run of each does not count.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

import click

from tests.bench.contenders import (
    PassResult,
    fresh_tier,
    require_same_records,
    tierfold_pass,
)
from tests.bench.logs import LOGS, BenchLog, made
from tests.bench.measures import ratios, spread
from tests.bench.options import folder_option, only_option
from tests.jobs.commands import LOCAL_ENGINE
from tests.storage.tiers.aiven_objects import Variant
from tests.storage.tiers.aiven_samples import ENCRYPTED, KEY_FILE
from tests.storage.tiers.aiven_tiers import aiven_tier
from tierfold.storage.tiers.layout_options import AS_FOUND, KeyFile, Layout, LayoutOptions

CHUNK_BYTES: Final = 4 << 20
"""As the plugin's documentation recommends."""

VARIANTS: Final = {
    "plain": Variant(chunk_bytes=CHUNK_BYTES),
    "zstd": Variant(chunk_bytes=CHUNK_BYTES, is_compressed=True),
    "encrypted": Variant(chunk_bytes=CHUNK_BYTES, key=ENCRYPTED.keys[0]),
}
WITH_KEY: Final = LayoutOptions(
    layout=Layout.AIVEN, key_files=(KeyFile(key_id="key-1", path=str(KEY_FILE)),)
)


def measured(log: BenchLog, scale: int, runs: int, folder: Path) -> dict[str, object]:
    """One object with a part for each way to store the log."""
    source = made(log, scale, folder)
    scratch = folder / "scratch"
    tiers = {}
    for name, variant in VARIANTS.items():
        shutil.rmtree(scratch / name, ignore_errors=True)
        tiers[name] = aiven_tier(fresh_tier(source, scratch), scratch / name, variant)
    passes: dict[str, list[PassResult]] = {name: [] for name in ("folder", *VARIANTS)}
    for _ in range(runs + 1):
        passes["folder"].append(tierfold_pass(fresh_tier(source, scratch), LOCAL_ENGINE))
        for name, tier in tiers.items():
            before = set(tier.rglob("*"))
            layout = WITH_KEY if name == "encrypted" else AS_FOUND
            passes[name].append(tierfold_pass(tier, LOCAL_ENGINE, layout))
            for path in sorted(set(tier.rglob("*")) - before, reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
    shutil.rmtree(scratch, ignore_errors=True)
    require_same_records(log.name, [found[-1] for found in passes.values()])
    return {"log": log.title, "scale": scale} | {
        name: _columns(found[1:], passes["folder"][1:]) for name, found in passes.items()
    }


def _columns(found: list[PassResult], folder: list[PassResult]) -> dict[str, str]:
    elapsed_s, cpu_s = zip(*(done.cost for done in found), strict=True)
    folder_s, folder_cpu_s = zip(*(done.cost for done in folder), strict=True)
    return {
        "elapsed s": spread(elapsed_s),
        "elapsed ÷ folder": ratios(elapsed_s, folder_s),
        "cpu s": spread(cpu_s),
        "cpu ÷ folder": ratios(cpu_s, folder_cpu_s),
    }


@click.command()
@click.option("--scale", type=int, default=1, help="Gigabytes.")
@click.option("--runs", type=int, default=3, help="Counted runs of each.")
@only_option
@folder_option
def bench(scale: int, runs: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    for log in LOGS:
        if not only or log.name in only:
            click.echo(json.dumps(measured(log, scale, runs, folder), ensure_ascii=False))


if __name__ == "__main__":
    bench()
