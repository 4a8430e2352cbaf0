"""Every verb's `--json` document and screen equal the recorded ones."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.commands import ALWAYS, CLOCK, TIMES, Ran, tierfold
from tests.jobs.elections import histories
from tests.jobs.log_dirs import WrittenLogDir
from tests.jobs.reports.screens import SCREENS, printed
from tests.jobs.tiers import key_of, made_tier, put_segment, put_updates, sample_copy
from tests.jobs.vacuum_tiers import HOUR_MS, THEN_MS, incomplete_upload, parts, written
from tests.storage.live_segments import data, marker
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.jobs.cli import progress_bars
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType

GOLDEN: Final = Path(__file__).parent / "golden_documents"
LAST_MS: Final = THEN_MS + 30 * 24 * HOUR_MS
"""What is written from `THEN_MS` to here has the time that a run happened to take in it."""

BROKEN, IDLE, EXPIRED, ORDERS = map(key_of, ("broken", "idle", "logs", "orders"))
POLICIES: Final = """
[broker]
"log.cleaner.min.cleanable.ratio" = 0
[topics."*"]
"cleanup.policy" = "compact"
[topics.idle]
"min.cleanable.dirty.ratio" = 1
[topics.logs]
"cleanup.policy" = "delete"
[topics.orders]
"compaction.strategy" = "timestamp"
"max.compaction.lag.ms" = 86400000
"""
VARYING: Final = {
    "run": re.compile(r"\b\d{8}T\d{6}-[\w-]{8}"),
    "commit": re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    "id": re.compile(r"(?<=\d{20}-)[\w-]{22}|(?<![\w-])[\w-]{21}[AQgw](?![\w-])"),
}
RUN_TIME: Final = re.compile(r"2027-0[12]-\d\dT[\d:.]+Z|(?<=^Took )[\d.]+ \w+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Documents:
    """What the verbs print about one tier, by the name of the golden file."""

    tier: Path
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    """Placeholders for names that differ from run to run."""
    seen: dict[str, str] = field(default_factory=dict)
    """The same for screens, whose runs have other names."""

    def ask(self, name: str, command: str, *options: str | Path, hours: int = 0) -> Ran:
        """Run `tierfold VERB TIER …` with and without `--json`, `hours` after `THEN_MS`."""
        self.date_the_log()
        verb, *rest = command.split()
        words = [verb, self.tier, *rest, *options, CLOCK, THEN_MS + hours * HOUR_MS]
        self.see(name, words)
        ran = tierfold(*map(str, words), "--json")
        self.keep(name, ran, ran.document)
        return ran

    def date_the_log(self) -> None:
        """Give the catalog's log the age that it has by the clocks of the commands."""
        for path in self.tier.glob("_tierfold/*/_delta_log/*"):
            os.utime(path, (THEN_MS / 1000, THEN_MS / 1000))

    def see(self, name: str, words: Sequence[str | Path | int]) -> None:
        """Keep the screen of the same command, which runs on a copy of the tier."""
        copy = self.tier.parent / "copy" / "tier"
        if self.tier.exists():
            shutil.copytree(self.tier, copy)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", "1000")
            patch.setattr(progress_bars, "LINE_EVERY_S", math.inf)  # However slow the machine is.
            ran = tierfold(*(str(copy if word == self.tier else word) for word in words))
        shutil.rmtree(copy, ignore_errors=True)
        said = f"{ran.stdout}\n[stderr, exit code {ran.code}]\n{ran.stderr}"
        screen = Documents(self.tier, numbers=self.seen)
        text: str = screen.masked(said.replace(str(copy.parent), str(self.tier.parent)))
        text = re.sub(r"(?<=\S) {2,}(?=\S)", "  ", re.sub("[─━]{2,}", "──", text))
        lines = [re.sub(r" +(?=[│┃]?$)", " ", line).rstrip() for line in text.splitlines()]
        self.texts[f"{name}.txt"] = "\n".join(lines) + "\n"

    def keep(self, name: str, ran: Ran, document: Any) -> None:
        """Keep the document with the exit code."""
        told = self.masked({"exit_code": ran.code, "document": document})
        self.texts[f"{name}.json"] = json.dumps(told, indent=1, ensure_ascii=False) + "\n"

    def masked(self, value: Any) -> Any:
        """Return the value without what differs from run to run."""
        match value:
            case dict():
                return {
                    key: "<time>" if key in TIMES else self.masked(item)
                    for key, item in value.items()
                }
            case list():
                return [self.masked(item) for item in value]
            case int() if THEN_MS <= value < LAST_MS:
                return "<time>"
            case str():
                text = RUN_TIME.sub("<time>", value.replace(str(self.tier.parent), "<folder>"))
                for kind, pattern in VARYING.items():
                    text = pattern.sub(partial(self.number, kind), text)
                return text
            case _:
                return value

    def number(self, kind: str, found: re.Match[str]) -> str:
        """Return the placeholder of a name, numbered by first appearance."""
        known = sum(numbered.startswith(f"<{kind} ") for numbered in self.numbers.values())
        return self.numbers.setdefault(found[0], f"<{kind} {known + 1}>")


def config(folder: Path) -> Mapping[str, str]:
    """Settings of a topic, which need no tier."""
    told = Documents(folder / "tier")
    words = ("config", "orders", "--config", policies(folder))
    told.see("config", words)
    ran = tierfold(*words, "--json")
    told.keep("config", ran, ran.document)
    return told.texts


def dump(folder: Path) -> Mapping[str, str]:
    """A segment with headers, a transaction and its end, and a batch without a key."""
    told = Documents(sample_copy(folder / "tier"))
    headers = ((b"trace", b"\xfe"), (b"empty", None))
    record = RecordDraft(offset=0, timestamp_ms=1000, key=b"k", value=b"\xff\x00", headers=headers)
    batches = (
        BatchDraft(base_offset=0, records=(record,), codec=Codec.ZSTD, leader_epoch=3),
        data(1, (b"k", b"aborted"), producer_id=7),
        marker(2, 7, ControlType.ABORT),
        data(3, (None, b"text"), (b"k", None)),
    )
    ran = tierfold("dump", put_segment(told.tier, ORDERS, batches, start_offset=0))
    told.keep("dump", ran, [json.loads(line) for line in ran.stdout.splitlines()])
    return told.texts


def many_partitions(folder: Path) -> Mapping[str, str]:
    """From the first plan to the deletion of replaced segments."""
    told = Documents(sample_copy(folder / "tier"))
    put_partitions(told.tier)
    settings = ("--config", policies(folder))
    told.ask("plan", "plan", *settings)
    told.ask("plan-explain", "plan --explain orders-0", *settings)
    told.ask("plan-explain-refused", "plan --explain broken-0", *settings)
    told.ask("status-before", "status", *settings)
    told.ask("compact-dry-run", "compact --dry-run", *settings)
    told.ask("compact", "compact", *settings)
    told.ask("compact-again", "compact", *settings, hours=1)
    put_updates(told.tier, ORDERS, 3)
    told.ask("status", "status", *settings, hours=2)
    told.ask("status-segments", "status --segments", *settings, hours=2)
    told.ask("verify", "verify", *settings, hours=2)
    told.ask("history-untouched", "history broken-0", hours=2)
    lines = told.ask("history", "history orders-0", hours=2).entries[0]["history"]
    compacted, first = (("--to", str(line["committed_at_ms"])) for line in lines)
    told.ask("restore-dry-run", "restore orders-0 --dry-run", *first, hours=3)
    told.ask("restore", "restore orders-0", *first, hours=3)
    told.ask("restore-again", "restore orders-0", *first, hours=4)
    told.ask("history-restored", "history orders-0", hours=5)
    put_orphans(told.tier)
    told.ask("status-orphan", "status --topic orders", *settings, hours=32)
    told.ask("vacuum-attached", "vacuum --dry-run", *settings, hours=32)
    detached = (*settings, "--set", "tier.binding=detached")
    told.ask("vacuum-dry-run", "vacuum --dry-run", *detached, hours=32)
    told.ask("vacuum", "vacuum", *detached, hours=32)
    told.ask("status-vacuumed", "status", *detached, hours=33)
    told.ask("restore-refused", "restore orders-0", *compacted, hours=33)
    told.ask("compact-restored", "compact --topic orders", *detached, hours=34)
    told.ask("history-vacuumed", "history orders-0", hours=35)
    return told.texts


def put_partitions(tier: Path) -> None:
    """One partition to compact, a corrupt one, an idle one, an expiring one."""
    for number in range(2):
        put_updates(tier, ORDERS, number)
        put_updates(tier, EXPIRED, number)
    batches = (
        data(22, (b"k0", b"aborted"), (None, b"no key"), producer_id=7),
        marker(24, 7, ControlType.ABORT),
        data(25, (b"k1", None), (b"k2", b"last")),
    )
    aborted = AbortedTransaction(
        producer_id=7, first_offset=22, last_offset=24, last_stable_offset=25
    )
    put_segment(tier, ORDERS, batches, start_offset=22, aborted=[aborted])
    put_updates(tier, IDLE, 0)
    log = put_updates(tier, BROKEN, 0)
    log.write_bytes(log.read_bytes()[:-1] + b"!")


def put_orphans(tier: Path) -> None:
    """Remains of dead writers; no other segment starts there, because ids would order the two."""
    for part in parts(put_segment(tier, ORDERS, [data(5, (b"k0", b"mine"))], start_offset=5)):
        written(part, 0)
    incomplete_upload(tier)


def election(folder: Path) -> Mapping[str, str]:
    """A log that was truncated: refused, forgotten, compacted; the rest of it is deleted."""
    tier, _, second, newest = histories(folder / "tier")
    while second.segment_id > newest.segment_id:  # both start at 6, and ids are drawn
        shutil.rmtree(tier)
        tier, _, second, newest = histories(tier)
    for log in tier.rglob("*.log"):
        for part in parts(log):
            written(part, 0)
    told = Documents(tier)
    settings = ("--set", "cleanup.policy=compact", "--set", "tier.binding=detached")
    told.ask("cut-off-plan", "plan", *settings)
    told.ask("cut-off-compact", "compact", *settings)
    told.ask("cut-off-status", "status", *settings)
    told.ask("cut-off-verify", "verify", *settings)
    told.ask("cut-off-vacuum", "vacuum", *settings)
    told.ask("cut-off-history", "history orders-0")
    told.ask("forget-dry-run", "forget orders-0 --dry-run")
    told.ask("forget", "forget orders-0")
    told.ask("forget-again", "forget orders-0", hours=1)
    told.ask("forgotten-history", "history orders-0", hours=1)
    told.ask("forgotten-compact", "compact", *settings, hours=2)
    told.ask("forgotten-status", "status", *settings, hours=3)
    told.ask("forgotten-vacuum", "vacuum --diverged --orphan-age 0s", *settings, hours=40)
    shutil.rmtree(tier / "_tierfold" / "partitions" / "_delta_log")
    told.ask("lost-catalog", "status")
    return told.texts


def policies(folder: Path) -> Path:
    """The settings file, beside the tier."""
    path = folder / "policies.toml"
    path.write_text(POLICIES, encoding="utf-8")
    return path


def second_opinion(folder: Path) -> Mapping[str, str]:
    """The one verb that always needs Spark."""
    told = Documents(sample_copy(folder / "tier"))
    assert tierfold("compact", told.tier, *ALWAYS, CLOCK, str(THEN_MS)).code == 0
    told.ask("verify-second-opinion", "verify --second-opinion --topic tiered", hours=2)
    return told.texts


def log_directory(folder: Path) -> Mapping[str, str]:
    """A broker's log directory beside its tier: three segments of five may go."""
    told = Documents(made_tier(folder / "tier"))
    logs = WrittenLogDir(folder / "data").filled(ORDERS, 3)
    now = (CLOCK, str(THEN_MS))
    assert tierfold("upload", logs.path, told.tier, *now).code == 0
    assert tierfold("compact", told.tier, *ALWAYS, *now).code == 0
    logs.roll_ten(ORDERS, 30)
    assert tierfold("upload", logs.path, told.tier, *now).code == 0
    logs.roll_ten(ORDERS, 40)
    words = ("local-retention", logs.path, told.tier, *ALWAYS, *now)
    told.see("local-retention", words)
    ran = tierfold(*words, "--json")
    told.keep("local-retention", ran, ran.document)
    return told.texts


WITHOUT_SPARK: Final = (config, dump, many_partitions, election, log_directory, printed)


def is_as_recorded(found: Mapping[str, str]) -> bool:
    """Where a change is meant: `python -m tests.jobs.verbs.record_golden_documents`."""
    recorded = {name: (GOLDEN / name).read_text(encoding="utf-8") for name in found}
    assert found == recorded
    return True


@pytest.mark.parametrize("scenario", WITHOUT_SPARK)
def test_documents_and_screens_are_the_recorded_ones(
    scenario: Callable[[Path], Mapping[str, str]], tmp_path: Path
) -> None:
    assert is_as_recorded(scenario(tmp_path))


def test_a_second_opinion_is_the_recorded_one(spark: object, tmp_path: Path) -> None:
    assert is_as_recorded(second_opinion(tmp_path))


def test_every_recorded_file_belongs_to_a_scenario() -> None:
    names = Path(__file__).read_text(encoding="utf-8")
    recorded = {path.stem for path in GOLDEN.iterdir()} - SCREENS.keys()
    assert [name for name in recorded if f'"{name}"' not in names] == []


def test_masks_keep_what_is_equal_and_what_does_not_vary() -> None:
    told = Documents(Path("/tmp/somewhere/tier"))
    run, other = "20261121T153000-aaaaaaaa", "20261121T153000-aaaabbbb"
    ours = "GD74tm69TX2A3yon46qLpg"
    assert told.masked([run, other, f"by {run}"]) == ["<run 1>", "<run 2>", "by <run 1>"]
    log = f"/tmp/somewhere/tier/{7:020}-{ours}.log"
    assert told.masked([ours, log]) == ["<id 1>", f"<folder>/tier/{7:020}-<id 1>.log"]
    kept = {"a": THEN_MS - 1, "b": "2026-11-21T15:30:46.123Z", "c": True, "d": None}
    assert told.masked(kept) == kept
    assert told.masked([THEN_MS, "at 2027-01-15T08:00:11.232Z"]) == ["<time>", "at <time>"]
