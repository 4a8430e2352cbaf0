"""`make bench`: the same log in a folder and in a bucket of versitygw, on the same machine.

    python -m tests.bench.buckets --runs 3 --only raw1k

Both take turns, in one warm session; the first run of each does not count. The gateway shares the
machine, so its CPU time is stated apart. A third contender only downloads the input and uploads as
much as the output: the bar is the larger of its time and the folder's.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from statistics import median

import click

from tests.bench.contenders import Passed, fresh_tier, session_start, tierfold_pass
from tests.bench.logs import LOGS, BenchLog, made
from tests.bench.measures import Stopwatch, spread, tree_cpu_s
from tests.bench.results import printed
from tests.jobs.commands import ROOT
from tests.storage.emulator_programs import missing_emulators
from tests.storage.emulators import IDENTITY, Server, new_bucket, s3_client, versitygw_server


@contextmanager
def uploaded(tier: Path, server: Server) -> Iterator[str]:
    """A tier's files as objects of a new bucket, by hard links; yields its URI."""
    bucket = new_bucket(server.endpoint)
    shutil.copytree(tier, server.folder / bucket / "tier", copy_function=os.link)
    yield f"s3://{bucket}/tier"
    shutil.rmtree(server.folder / bucket)


def measured(log: BenchLog, scale: int, runs: int, folder: Path) -> dict[str, object]:
    """One row of the table: both places take turns with one log."""
    source = made(log, scale, folder)
    scratch, server = folder / "scratch", versitygw_server()
    in_folder: list[Passed] = []
    in_bucket: list[Passed] = []
    gateway_s: list[float] = []
    plain: list[float] = []
    for _ in range(runs + 1):
        in_folder.append(tierfold_pass(fresh_tier(source, scratch)))
        with uploaded(fresh_tier(source, scratch), server) as uri:
            plain.append(plain_transfer_s(uri, server.endpoint, in_folder[-1].bytes_out))
            before_s = tree_cpu_s(server.pid)
            in_bucket.append(tierfold_pass(uri))
            gateway_s.append(tree_cpu_s(server.pid) - before_s)
    shutil.rmtree(scratch, ignore_errors=True)
    kept = {(run.records_in, run.records_out) for run in (*in_folder, *in_bucket)}
    if len(kept) > 1:
        raise RuntimeError(f"{log.name}: different records were kept: {kept}")
    row = _row(log, scale, in_folder[1:], in_bucket[1:], gateway_s[1:])
    bars = [
        max(run.cost.elapsed_s, moved_s)
        for run, moved_s in zip(in_folder[1:], plain[1:], strict=True)
    ]
    reached = [run.cost.elapsed_s / bar for run, bar in zip(in_bucket[1:], bars, strict=True)]
    return row | {"download and upload s": spread(plain[1:]), "bucket ÷ bar": spread(reached)}


def plain_transfer_s(uri: str, endpoint: str, bytes_out: int) -> float:
    """The time to download all logs of a tier, and to upload `bytes_out`, with boto3's transfers.

    Objects move one after the other, in parts of 8 MiB on ten threads each: boto3's defaults.
    """
    client, (bucket, _, prefix) = s3_client(endpoint), uri.removeprefix("s3://").partition("/")
    found = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [entry["Key"] for page in found for entry in page["Contents"]]
    with Stopwatch() as watch:
        for key in keys:
            if key.endswith(".log"):
                client.download_fileobj(bucket, key, _Nowhere())
        client.upload_fileobj(BytesIO(bytes(bytes_out)), bucket, "plain-upload")
    client.delete_object(Bucket=bucket, Key="plain-upload")
    return watch.cost.elapsed_s


class _Nowhere(BytesIO):
    """Takes bytes and keeps none."""

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        """Count the bytes."""
        return len(data)


def _row(
    log: BenchLog,
    scale: int,
    in_folder: list[Passed],
    in_bucket: list[Passed],
    gateway_s: list[float],
) -> dict[str, object]:
    megabytes = in_folder[0].bytes_in / 1e6
    pairs = list(zip(in_folder, in_bucket, strict=True))
    # The gateway is a child of this process.
    cpu_s = [run.cost.cpu_s - gateway for run, gateway in zip(in_bucket, gateway_s, strict=True)]
    requests = in_bucket[-1].requests
    return {
        "log": log.title,
        "scale": scale,
        "MB in": round(megabytes),
        "MB out": round(in_folder[0].bytes_out / 1e6),
        "folder elapsed s": spread([run.cost.elapsed_s for run in in_folder]),
        "bucket elapsed s": spread([run.cost.elapsed_s for run in in_bucket]),
        "elapsed ratio": spread([b.cost.elapsed_s / f.cost.elapsed_s for f, b in pairs]),
        "folder MB/s": round(megabytes / median(run.cost.elapsed_s for run in in_folder)),
        "bucket MB/s": round(megabytes / median(run.cost.elapsed_s for run in in_bucket)),
        "folder cpu s": spread([run.cost.cpu_s for run in in_folder]),
        "bucket cpu s": spread(cpu_s),
        "cpu ratio": spread(
            [ours / run.cost.cpu_s for ours, run in zip(cpu_s, in_folder, strict=True)]
        ),
        "gateway cpu s": spread(gateway_s),
        "requests": requests.total,
        **{kind: count for kind, count in asdict(requests).items() if count},
        "verified": asdict(in_bucket[-1].verified),
    }


@click.command()
@click.option("--scale", type=int, multiple=True, default=(1,), help="Gigabytes. Repeatable.")
@click.option("--runs", type=int, default=5, help="Counted runs of each place.")
@click.option("--only", multiple=True, help="Only these logs, by name.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "build" / "bench")
def bench(scale: tuple[int, ...], runs: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    if "versitygw" in missing_emulators():
        click.echo("left out: versitygw is not installed; run make emulators")
        return
    folder.mkdir(parents=True, exist_ok=True)
    # Before the session starts, so that its workers have them too.
    os.environ.update(IDENTITY, AWS_ENDPOINT_URL=versitygw_server().endpoint)
    session_start(ROOT / "sample", folder / "scratch")
    for size in scale:
        for log in LOGS:
            if not only or log.name in only:
                row = measured(log, size, runs, folder)
                printed("buckets", row, folder / "results.jsonl")


if __name__ == "__main__":
    bench()
