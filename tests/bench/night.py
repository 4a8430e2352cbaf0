"""A night of thousands of partitions, three of which fail, each in another way.

    python -m tests.bench.night --partitions 5000
    python -m tests.bench.night --partitions 5000 --in-bucket

One has a corrupt segment, one a segment that may not be read, one a gap. Everything that a person
looks at in the morning is written to `--output`; each command's time, memory and screen are
printed. It fails unless each screen names the partitions, and fits.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from tests.bench.planning import PARTITIONS_PER_TOPIC
from tests.faults.evictions.evicted_run import LOOK_EVERY_S, many_partitions
from tests.jobs.commands import ROOT, users_environment
from tests.jobs.tiers import flip_last_byte, folder_of, key_of
from tests.storage.s3_proxy import error, proxied
from tierfold.compaction.model.segments import PartitionKey

FOLDER: Final = ROOT / "build" / "night"
SEGMENTS: Final = 3
COLUMNS: Final = 100
OWNERS: Final = ("shop", "books", "search", "billing", "logistics")
CORRUPT, FORBIDDEN, GAP = 17, 4, 31
"""The topics whose first partition fails; `many_partitions` numbers them."""
FILE_BYTES_MOST: Final = 2**40
LINES_MOST: Final = 60
"""Lines of a screen."""
TRIED: Final = ("compact", "runs", "run", "report")
"""The screens that know of the corrupt segment: the other verbs do not read it."""


def failing(number: int) -> PartitionKey:
    """A partition that fails."""
    return key_of(f"topic-{number:05d}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A command that has ended."""

    code: int
    screen: str
    elapsed_s: float
    peak_mb: float


def spoil(tier: Path) -> Path:
    """Spoil three partitions of a tier in a folder; return the object that must not be read."""
    corrupt, forbidden, gap = (
        sorted(folder_of(tier, failing(number)).glob("*.log"))
        for number in (CORRUPT, FORBIDDEN, GAP)
    )
    # The files are links to those of all other partitions.
    for log in (corrupt[1], forbidden[1]):
        content = log.read_bytes()
        log.unlink()
        log.write_bytes(content)
    flip_last_byte(corrupt[1])
    forbidden[1].chmod(0)
    for part in gap[1].parent.glob(f"{gap[1].stem}.*"):
        part.unlink()
    return forbidden[1]


def settings(topics: int) -> str:
    """Every topic is compacted, and each has one of the owners."""
    tables = [
        f'[topics."topic-*{digit}"]\nlabels = {{team = "{OWNERS[digit % len(OWNERS)]}"}}'
        for digit in range(min(10, topics))
    ]
    head = '[broker]\n"tier.binding" = "detached"', '[topics."*"]\n"cleanup.policy" = "compact"'
    return "\n\n".join((*head, *tables))


def looked(arguments: Sequence[str], environment: Mapping[str, str], screen: Path) -> Looked:
    """Run `tierfold ARGUMENTS…` where permissions bind root, too."""
    command = [sys.executable, "-m", "tests.jobs.confined", str(FILE_BYTES_MOST), *arguments]
    began_s, peak_kib = time.monotonic(), 0
    with (
        screen.open("w") as out,
        screen.with_suffix(".stderr").open("w") as err,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=err) as process,
    ):
        # The kernel's own sum has this process's peak, too: until it became another program.
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak_kib = max(peak_kib, *map(int, re.findall(r"VmHWM:\s+(\d+)", status)), 0)
            time.sleep(LOOK_EVERY_S)
    return Looked(
        code=process.returncode,
        screen=screen.read_text(),
        elapsed_s=time.monotonic() - began_s,
        peak_mb=peak_kib * 1024 / 1e6,
    )


@contextmanager
def spoiled_tier(partitions: int, *, in_bucket: bool) -> Iterator[str]:
    """The address of a tier of this size in which three partitions are spoiled."""
    place = many_partitions(FOLDER, partitions, SEGMENTS, in_bucket=in_bucket)
    with place as (address, catalog):
        forbidden = spoil(catalog.parent)
        if not in_bucket:
            yield address
            return
        with proxied(os.environ["AWS_ENDPOINT_URL"]) as (proxy, endpoint):
            answer = error(403, "AccessDenied")
            proxy.add("gets", times=sys.maxsize, text=forbidden.name, answer=answer)
            os.environ["AWS_ENDPOINT_URL"] = endpoint
            yield address


def night(address: str, output: Path, topics: int) -> Iterator[tuple[str, Looked]]:
    """Run the night's commands and the morning's; yield the name of each, and how it ended."""
    config = output / "tierfold.toml"
    config.write_text(settings(topics))
    environment = users_environment() | {
        "COLUMNS": str(COLUMNS),
        "TIERFOLD_TIER": address,
        "TIERFOLD_CONFIG": str(config),
    }
    document = output / "compact.json"
    written = ("--metrics-file", str(output / "compact.prom"), "--document", str(document))
    commands = {
        "plan": ("plan",),
        "compact": ("compact", "--engine", "local", *written),
        "vacuum": ("vacuum",),
        "runs": ("runs",),
        "run": ("runs", "--run"),
        "plan again": ("plan",),
        "status": ("status",),
        "report": ("report", "-o", str(output / "report.html")),
    }
    for name, arguments in commands.items():
        run = [json.loads(document.read_text())["run"]] if name == "run" else []
        screen = output / f"{name.replace(' ', '-')}.txt"
        yield name, looked([*arguments, *run], environment, screen)


def check(name: str, found: Looked, page: Path) -> None:
    """Raise AssertionError if a screen names too little, or has too many lines."""
    text = page.read_text(encoding="utf-8") if name == "report" else found.screen
    numbers = (CORRUPT, FORBIDDEN, GAP) if name in TRIED else (FORBIDDEN, GAP)
    missing = [str(failing(number)) for number in numbers if str(failing(number)) not in text]
    assert not missing, (name, missing)
    assert len(found.screen.splitlines()) <= LINES_MOST, name


@click.command()
@click.option("--partitions", default=5000, show_default=True)
@click.option("--in-bucket", is_flag=True, help="On versitygw, behind a proxy.")
@click.option("--output", type=click.Path(path_type=Path), default=FOLDER.with_name("morning"))
def main(partitions: int, output: Path, *, in_bucket: bool) -> None:
    """Play a night, and print what each command took."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    click.echo("| command | exit code | seconds | peak MB | lines | bytes |")
    click.echo("|---|---|---|---|---|---|")
    with spoiled_tier(partitions, in_bucket=in_bucket) as address:
        for name, found in night(address, output, partitions // PARTITIONS_PER_TOPIC):
            click.echo(
                f"| {name} | {found.code} | {found.elapsed_s:.1f} | {found.peak_mb:.0f} |"
                f" {len(found.screen.splitlines())} | {len(found.screen)} |"
            )
            check(name, found, output / "report.html")
    for path in sorted(output.iterdir()):
        click.echo(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
