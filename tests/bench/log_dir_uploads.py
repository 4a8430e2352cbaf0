"""Uploads a log directory into a bucket of versitygw, and the same files by a plain copy, in turn.

    python -m tests.bench.log_dir_uploads --gigabytes 10

The copy is boto3's, file after file, in parts of 8 MiB on ten threads each: its defaults. It checks
nothing, while `upload` reads each segment first, and compares its checksums. The gateway shares the
machine. The first round does not count.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from statistics import median
from typing import Final

import click

import tierfold as api
from tests.bench.logs import LOGS, made
from tests.bench.measures import Cost, Stopwatch, ratios, spread
from tests.bench.options import folder_option
from tests.bench.results import print_row
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.tiers import key_of
from tests.storage.emulator_programs import missing_emulators
from tests.storage.emulators import IDENTITY, new_bucket, s3_client, versitygw_server
from tierfold.storage.log_dirs.offset_checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS

SUFFIXES: Final = (".log", ".index", ".timeindex")


def log_directory(gigabytes: int, folder: Path) -> Path:
    """A log directory with a partition for each gigabyte, made of links to one generated log."""
    source, place = made(LOGS[0], 1, folder), folder / "log-dir"
    shutil.rmtree(place, ignore_errors=True)
    written = WrittenLogDir(place)
    starts = sorted(int(log.stem) for log in source.glob("*.log"))
    keys = [key_of("bench", number) for number in range(gigabytes)]
    for key in keys:
        written.begin(key)
        for path in source.iterdir():
            # The last segment is the active one.
            if path.suffix in SUFFIXES and int(path.stem) in starts[:-1]:
                linked = written.file(key, int(path.stem), path.suffix[1:])
                linked.unlink(missing_ok=True)
                os.link(path, linked)
        for start in starts[1:]:
            shutil.copy(written.file(key, 0, "snapshot"), written.file(key, start, "snapshot"))
        for suffix in SUFFIXES:
            written.file(key, starts[-1], suffix[1:]).touch()
    for checkpoint in (RECOVERY_POINTS, HIGH_WATERMARKS):
        written.note(checkpoint, dict.fromkeys(keys, starts[-1]))
    return place


def upload_cost(place: Path, bucket: str) -> Cost:
    """Of `tierfold upload` into a new tier."""
    with Stopwatch() as watch:
        done = api.upload(place, f"s3://{bucket}/tier", topics=["bench"])
    assert done.outcome == "uploaded", done
    return watch.cost


def copy_cost(place: Path, bucket: str) -> Cost:
    """Of a plain copy of the rolled segments."""
    client = s3_client(versitygw_server().endpoint)
    logs = [path for path in sorted(place.rglob("*.log")) if path.stat().st_size]
    with Stopwatch() as watch:
        for log in logs:
            client.upload_file(str(log), bucket, f"{log.parent.name}/{log.name}")
    return watch.cost


@click.command()
@click.option("--gigabytes", default=10, show_default=True)
@click.option("--runs", default=3, show_default=True, help="Counted runs of each.")
@folder_option
def main(gigabytes: int, runs: int, folder: Path) -> None:
    """Measure both, and print a JSON object."""
    if "versitygw" in missing_emulators():
        click.echo("skipped: versitygw is not installed; run make emulators")
        return
    server = versitygw_server()
    os.environ.update(IDENTITY, AWS_ENDPOINT_URL=server.endpoint)
    place = log_directory(gigabytes, folder)
    megabytes = sum(path.stat().st_size for path in place.rglob("*.log")) / 1e6
    uploads: list[Cost] = []
    copies: list[Cost] = []
    for _ in range(runs + 1):
        for costs, cost_of in ((uploads, upload_cost), (copies, copy_cost)):
            bucket = new_bucket(server.endpoint)
            costs.append(cost_of(place, bucket))
            shutil.rmtree(server.folder / bucket)
    upload_s, copy_s = ([cost.elapsed_s for cost in costs[1:]] for costs in (uploads, copies))
    row = {
        "MB": round(megabytes),
        "upload s": spread(upload_s),
        "copy s": spread(copy_s),
        "upload ÷ copy": ratios(upload_s, copy_s),
        "upload MB/s": round(megabytes / median(upload_s)),
        "copy MB/s": round(megabytes / median(copy_s)),
    }
    print_row("uploads", row, folder)
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
