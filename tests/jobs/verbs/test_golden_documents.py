"""Every verb's `--json` document equals the recorded one, field by field and in order."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.jobs.commands import Ran, tierfold
from tests.jobs.elections import histories
from tests.jobs.tiers import key_of, put_segment, put_updates, sample_copy
from tests.jobs.vacuum_tiers import HOUR_MS, THEN_MS, incomplete_upload, parts, written
from tests.storage.live_segments import data, marker
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.jobs.cli import output
from tierfold.storage.kafka.batch_draft import BatchDraft, RecordDraft
from tierfold.storage.kafka.compression import Codec
from tierfold.storage.kafka.control_records import ControlType

GOLDEN: Final = Path(__file__).parent / "golden_documents"
RECORDED: Final = sorted(path.name for path in GOLDEN.iterdir())
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
RUN_TIME: Final = re.compile(r"2027-0[12]-\d\dT[\d:.]+Z")


@dataclass(frozen=True, slots=True)
class Documents:
    """What the verbs say of one tier, each document by the name of its golden file."""

    tier: Path
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    """What stands for a name that another run would not give again."""
    seen: dict[str, str] = field(default_factory=dict)
    """The same for screens, whose runs have names of their own."""

    def ask(self, name: str, command: str, *options: str | Path, hours: int = 0) -> Ran:
        """`tierfold VERB TIER … --json`, so long after `THEN_MS`."""
        verb, *rest = command.split()
        words = [verb, self.tier, *rest, *options, "--now", THEN_MS + hours * HOUR_MS]
        self.see(name, words)
        ran = tierfold(*map(str, words), "--json")
        self.keep(name, ran, json.loads(ran.stdout))
        return ran

    def see(self, name: str, words: Sequence[str | Path | int]) -> None:
        """What people see of the same command: it runs on a copy of the tier."""
        copy = self.tier.parent / "copy" / "tier"
        if self.tier.exists():
            shutil.copytree(self.tier, copy)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(output, "WIDTH_WITHOUT_TERMINAL", 1000)
            ran = tierfold(*(str(copy if word == self.tier else word) for word in words))
        shutil.rmtree(copy, ignore_errors=True)
        said = f"{ran.stdout}\n[stderr, exit code {ran.code}]\n{ran.stderr}"
        screen = Documents(self.tier, numbers=self.seen)
        text: str = screen.masked(said.replace(str(copy.parent), str(self.tier.parent)))
        text = re.sub(r"(?<=\S) {2,}(?=\S)", "  ", re.sub("[─━]{2,}", "──", text))
        lines = [re.sub(r" +(?=[│┃]?$)", " ", line).rstrip() for line in text.splitlines()]
        self.texts[f"{name}.txt"] = "\n".join(lines) + "\n"

    def keep(self, name: str, ran: Ran, document: Any) -> None:
        """The exit code is as much a part of the answer as the document."""
        told = self.masked({"exit_code": ran.code, "document": document})
        self.texts[f"{name}.json"] = json.dumps(told, indent=1, ensure_ascii=False) + "\n"

    def masked(self, value: Any) -> Any:
        """The value without what differs from run to run; a name's number is that of its kind."""
        match value:
            case dict():
                return {key: self.masked(item) for key, item in value.items()}
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
        """The same for the same name, by first appearance."""
        known = sum(numbered.startswith(f"<{kind} ") for numbered in self.numbers.values())
        return self.numbers.setdefault(found[0], f"<{kind} {known + 1}>")


def documents_of(folder: Path) -> dict[str, str]:
    """All of them; a Spark session must be there."""
    every = {"config": config, "dump": dump, "tier": many_partitions, "election": election}
    found: dict[str, str] = {}
    for name, tell in every.items():
        (folder / name).mkdir()
        found |= tell(folder / name)
    return found


def config(folder: Path) -> Mapping[str, str]:
    """Settings of a topic, which need no tier."""
    told = Documents(folder / "tier")
    words = ("config", "orders", "--config", policies(folder))
    told.see("config", words)
    ran = tierfold(*words, "--json")
    told.keep("config", ran, json.loads(ran.stdout))
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
    """From the first look to the deletion of what was replaced."""
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
    told.ask("verify", "verify", *settings, hours=2)
    told.ask("verify-second-opinion", "verify --second-opinion --topic tiered", hours=2)
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
    """One to be compacted, one that is damaged, one that is idle, one that expires."""
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
    """What writers that died left; no other segment starts there, ids would order the two."""
    for part in parts(put_segment(tier, ORDERS, [data(5, (b"k0", b"mine"))], start_offset=5)):
        written(part, 0)
    incomplete_upload(tier)


def election(folder: Path) -> Mapping[str, str]:
    """A log that was cut off: refused, forgotten, compacted, and what is set apart deleted."""
    tier, _, second, newest = histories(folder / "tier")
    while second.segment_id > newest.segment_id:  # both start at 6, and ids are drawn
        shutil.rmtree(tier)
        tier, _, second, newest = histories(tier)
    for log in tier.rglob("*.log"):
        for part in parts(log):
            written(part, 0)
    told = Documents(tier)
    settings = ("--set", "cleanup.policy=compact", "--set", "tier.binding=detached")
    for verb in ("plan", "compact", "status", "verify", "vacuum"):
        told.ask(f"cut-off-{verb}", verb, *settings)
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


@pytest.fixture(scope="module")
def documents(spark: object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """As the verbs say them today."""
    return documents_of(tmp_path_factory.mktemp("golden"))


def test_no_document_is_without_its_record(documents: dict[str, str]) -> None:
    assert sorted(documents) == RECORDED


@pytest.mark.parametrize("name", RECORDED)
def test_a_document_is_the_recorded_one(name: str, documents: dict[str, str]) -> None:
    """Where a change is meant: `python -m tests.jobs.verbs.record_golden_documents`."""
    recorded = (GOLDEN / name).read_text(encoding="utf-8")
    assert documents[name] == recorded


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
