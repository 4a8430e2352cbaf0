"""`make bench`: the same log in a folder and in a bucket of versitygw, on the same machine.

    python -m tests.bench.buckets --runs 3 --only raw1k

Folder and bucket take turns in one warm session; the first run of each does not count. The gateway
shares the machine, so its CPU time has its own column. A third contender only downloads the input
and uploads as many bytes as the output has. The bar is the larger of its time and the folder's.
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

from tests.bench.contenders import (
    PassResult,
    fresh_tier,
    require_same_records,
    session_start,
    tierfold_pass,
)
from tests.bench.logs import LOGS, BenchLog, made
from tests.bench.measures import Stopwatch, ratios, spread, tree_cpu_s
from tests.bench.options import folder_option, only_option
from tests.bench.results import print_row
from tests.storage.emulator_programs import missing_emulators
from tests.storage.emulators import IDENTITY, Server, new_bucket, s3_client, versitygw_server


@contextmanager
def uploaded(tier: Path, server: Server) -> Iterator[str]:
    """The URI of a new bucket whose objects are hard links to a tier's files."""
    bucket = new_bucket(server.endpoint)
    shutil.copytree(tier, server.folder / bucket / "tier", copy_function=os.link)
    yield f"s3://{bucket}/tier"
    shutil.rmtree(server.folder / bucket)


def measured(log: BenchLog, scale: int, runs: int, folder: Path) -> dict[str, object]:
    """One row of the table."""
    source = made(log, scale, folder)
    scratch, server = folder / "scratch", versitygw_server()
    in_folder: list[PassResult] = []
    in_bucket: list[PassResult] = []
    gateway_s: list[float] = []
    transfer_s: list[float] = []
    for _ in range(runs + 1):
        in_folder.append(tierfold_pass(fresh_tier(source, scratch)))
        with uploaded(fresh_tier(source, scratch), server) as uri:
            transfer_s.append(plain_transfer_s(uri, server.endpoint, in_folder[-1].bytes_out))
            before_s = tree_cpu_s(server.pid)
            in_bucket.append(tierfold_pass(uri))
            gateway_s.append(tree_cpu_s(server.pid) - before_s)
    shutil.rmtree(scratch, ignore_errors=True)
    require_same_records(log.name, (*in_folder, *in_bucket))
    row = _row(in_folder[1:], in_bucket[1:], gateway_s[1:])
    bucket_s = [run.cost.elapsed_s for run in in_bucket[1:]]
    folder_s = [run.cost.elapsed_s for run in in_folder[1:]]
    return {
        "log": log.title,
        "scale": scale,
        **row,
        "download and upload s": spread(transfer_s[1:]),
        "bucket ÷ bar": ratios(bucket_s, map(max, folder_s, transfer_s[1:])),
    }


def plain_transfer_s(uri: str, endpoint: str, bytes_out: int) -> float:
    """The seconds to download a tier's logs and to upload `bytes_out` bytes with boto3.

    Objects move one after the other, in parts of 8 MiB on ten threads each: boto3's defaults.
    """
    client, (bucket, _, prefix) = s3_client(endpoint), uri.removeprefix("s3://").partition("/")
    found = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [entry["Key"] for page in found for entry in page["Contents"]]
    with Stopwatch() as watch:
        with Path(os.devnull).open("wb", buffering=0) as sink:
            for key in keys:
                if key.endswith(".log"):
                    client.download_fileobj(bucket, key, sink)
        client.upload_fileobj(BytesIO(bytes(bytes_out)), bucket, "plain-upload")
    client.delete_object(Bucket=bucket, Key="plain-upload")
    return watch.cost.elapsed_s


def _row(
    in_folder: list[PassResult], in_bucket: list[PassResult], gateway_s: list[float]
) -> dict[str, object]:
    megabytes = in_folder[0].bytes_in / 1e6
    folder_s, bucket_s = ([run.cost.elapsed_s for run in runs] for runs in (in_folder, in_bucket))
    folder_cpu_s = [run.cost.cpu_s for run in in_folder]
    # The gateway is a child of this process, so the stopwatch has counted it.
    bucket_cpu_s = [run.cost.cpu_s - own for run, own in zip(in_bucket, gateway_s, strict=True)]
    requests = in_bucket[-1].requests
    return {
        "MB in": round(megabytes),
        "MB out": round(in_folder[0].bytes_out / 1e6),
        "folder elapsed s": spread(folder_s),
        "bucket elapsed s": spread(bucket_s),
        "elapsed ratio": ratios(bucket_s, folder_s),
        "folder MB/s": round(megabytes / median(folder_s)),
        "bucket MB/s": round(megabytes / median(bucket_s)),
        "folder cpu s": spread(folder_cpu_s),
        "bucket cpu s": spread(bucket_cpu_s),
        "cpu ratio": ratios(bucket_cpu_s, folder_cpu_s),
        "gateway cpu s": spread(gateway_s),
        "requests": requests.total,
        **{kind: count for kind, count in asdict(requests).items() if count},
        "verified": asdict(in_bucket[-1].verified),
    }


@click.command()
@click.option("--scale", type=int, multiple=True, default=(1,), help="Gigabytes. Repeatable.")
@click.option("--runs", type=int, default=5, help="Counted runs of each place.")
@only_option
@folder_option
def bench(scale: tuple[int, ...], runs: int, only: tuple[str, ...], folder: Path) -> None:
    """Measure each log, and print a JSON object for it."""
    if "versitygw" in missing_emulators():
        click.echo("skipped: versitygw is not installed; run make emulators")
        return
    # Before the session starts, so that its workers inherit the environment.
    os.environ.update(IDENTITY, AWS_ENDPOINT_URL=versitygw_server().endpoint)
    session_start(folder / "scratch")
    for size in scale:
        for log in LOGS:
            if not only or log.name in only:
                print_row("buckets", measured(log, size, runs, folder), folder)


if __name__ == "__main__":
    bench()
