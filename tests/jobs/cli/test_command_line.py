"""The command line's exit codes and messages are right, and it finds tier and catalog."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

import pytest

import tierfold as package
from tests.jobs.commands import ALWAYS, COMPACT, status_of, tierfold, told
from tests.jobs.tiers import (
    copied,
    files_below,
    key_of,
    latest_updates,
    live_values,
    put_updates,
    updated_tier,
)
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS
from tierfold.jobs.cli.output import Document, Output, finish
from tierfold.jobs.pipeline.partition_report import (
    COMPACTED,
    FAILED,
    FENCED,
    LOST_RACE,
    NOTHING_TO_DO,
    PLANNED,
    REFUSED,
    UNKNOWN,
    PartitionReport,
)
from tierfold.jobs.reports.plan_report import PlanResult
from tierfold.storage.catalog.catalog import Catalog

VERBS: Final = ("plan", "compact", "status", "verify")
ORDERS: Final = key_of("orders")


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    """One partition of two segments."""
    return updated_tier(tmp_path / "tier", [ORDERS], 2)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], 0),
        ([NOTHING_TO_DO], 0),
        ([COMPACTED, NOTHING_TO_DO], 0),
        ([PLANNED], 0),
        ([COMPACTED, REFUSED], 3),
        ([COMPACTED, FAILED], 3),
        ([UNKNOWN], 3),
        ([COMPACTED, FENCED], 4),
        ([LOST_RACE], 4),
        ([FENCED, FAILED], 3),
    ],
)
def test_the_exit_code_is_that_of_the_worst_outcome(
    outcomes: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    reports = tuple(PartitionReport(key=ORDERS, outcome=outcome) for outcome in outcomes)
    for output in (Output(), Document()):
        try:
            finish(output, PlanResult(tier="/tier", partitions=reports))
            left = 0
        except SystemExit as error:
            left = int(str(error.code))
        assert left == code
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", VERBS)
def test_a_setting_that_does_not_exist_is_refused_with_what_comes_near(
    verb: str, tier: Path
) -> None:
    before = files_below(tier)
    ran = tierfold(verb, tier, "--set", "min.cleanable.dirty.ration=0.1")
    ran.refuses("--set", "'min.cleanable.dirty.ration'", "Did you mean")
    assert "min.cleanable.dirty.ratio or" in ran.stderr or "ratio?" in ran.stderr
    assert files_below(tier) == before


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("min.cleanable.dirty.ratio=2", ("cannot be '2'", "from 0 to 1")),
        ("delete.retention.ms=1d", ("cannot be '1d'", "a whole number", "milliseconds")),
        ("cleanup.policy=compacted", ("cannot be 'compacted'", "compact,delete")),
        ("cleanup.policy", ("no value", "NAME=VALUE")),
        ("=compact", ("there is no setting ''",)),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_is(
    setting: str, words: tuple[str, ...], tier: Path
) -> None:
    tierfold("compact", tier, "--set", setting).refuses(*words)


@pytest.mark.parametrize("verb", VERBS)
def test_a_path_that_is_no_tier_is_refused(verb: str, tmp_path: Path) -> None:
    gone = tierfold(verb, tmp_path / "gone")
    gone.refuses(str(tmp_path / "gone"), "there is no such folder", "mounted")
    (tmp_path / "other" / "things").mkdir(parents=True)
    other = tierfold(verb, tmp_path / "other")
    assert other.code == 2
    assert not told(other.stderr, "no folder kafka-tiered-storage", "things", "Name the folder")
    file = tmp_path / "file"
    file.write_text("")
    tierfold(verb, file).refuses(f"{file}: this is a file, and a tier is a folder")


@pytest.mark.parametrize("uri", ["s3n://bucket/tier", "S3A://bucket/tier", "hdfs://name/tier"])
def test_another_scheme_is_refused_by_name(uri: str) -> None:
    tierfold("plan", uri).refuses(uri, "is not supported", "s3://bucket/prefix", "folder")


def test_a_file_uri_is_the_path(tier: Path) -> None:
    by_path = tierfold("plan", tier, *COMPACT, "--json")
    assert by_path.entry["outcome"] == "planned"
    by_uri = tierfold("plan", tier.as_uri(), *COMPACT, "--json")
    assert by_uri.untimed == by_path.untimed | {"tier": tier.as_uri()}


def test_a_relative_path_is_the_path(tier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_path = tierfold("plan", tier, *COMPACT, "--json")
    monkeypatch.chdir(tier.parent)
    by_name = tierfold("plan", tier.name, *COMPACT, "--json")
    assert by_name.untimed == by_path.untimed | {"tier": tier.name}


def test_usage_is_printed_with_exit_code_2() -> None:
    assert tierfold("compactify", "x").code == 2
    assert tierfold("compact").code == 2
    assert tierfold("compact", "x", "--now", "soon").code == 2
    assert tierfold("compact", "x", "--first-dirty", "-1").code == 2


@pytest.mark.parametrize(
    ("verb", "option", "least"),
    [
        *((verb, "--now", 10**12) for verb in VERBS),
        *((verb, "--first-dirty", 0) for verb in ("plan", "compact", "status")),
    ],
)
def test_times_are_milliseconds_and_offsets_have_63_bits(
    verb: str, option: str, least: int, tier: Path
) -> None:
    for beyond in (least - 1, 2**63):
        ran = tierfold(verb, tier, option, str(beyond))
        ran.refuses(option, str(beyond), f"{least}", f"{2**63 - 1}")


@pytest.mark.parametrize("verb", ["plan", "status"])
def test_the_largest_time_and_offset_are_accepted(verb: str, tier: Path) -> None:
    assert tierfold(verb, tier, *COMPACT, "--now", str(2**63 - 1)).code == 0
    ran = tierfold(verb, tier, *COMPACT, "--first-dirty", str(2**63 - 1))
    assert (ran.code, ran.stderr) == (3, "")


def test_a_run_at_the_largest_time_records_that_time(tier: Path) -> None:
    ever = str(2**63 - 1)
    ran = tierfold("compact", tier, *ALWAYS, "--now", ever, "--json")
    assert ran.code == 0, ran.stderr
    lines = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    assert {line["committed_at"] for line in lines} == {ever}


def test_now_takes_what_restore_takes(tier: Path) -> None:
    at_once = tierfold("plan", tier, *COMPACT, "--now", "2030-01-01T00:00:00+01:00", "--json")
    in_ms = tierfold("plan", tier, *COMPACT, "--now", "1893452400000", "--json")
    assert (at_once.code, at_once.untimed) == (0, in_ms.untimed)
    old = tierfold("plan", tier, *COMPACT, "--now", "1999-01-01")
    old.refuses("1999-01-01 is not in the range", "Write it as 2026-11-21T15:30:46Z")


WHOLE: Final = ("kafka-tiered-storage", "TIERFOLD_TIER", "tierfold.io/cleanup.policy", "--help")


@pytest.mark.parametrize("columns", ["50", "60", "80"])
def test_usage_errors_and_help_break_no_word(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    place = "/mnt/a-long-way-to-a-tier"
    wrong = tierfold("plan", place, "--now", "yesterday", *COMPACT)
    assert (wrong.code, wrong.stdout) == (2, "")
    shown = (tierfold("--help").stdout, tierfold("plan", "--help").stdout, wrong.stderr)
    prose = [line for text in shown for line in text.splitlines() if "tierfold plan" not in line]
    words = {word for line in prose for word in line.split()}
    assert [word for word in WHOLE if not any(word in one for one in words)] == []
    assert "2026-11-21T15:30:46Z," in wrong.stderr.split()
    assert max(map(len, wrong.stderr.splitlines())) <= int(columns)


def test_options_that_cannot_matter_are_not_offered() -> None:
    assert "--first-dirty" not in tierfold("verify", "--help").stdout
    assert "--set" not in tierfold("dump", "--help").stdout


def test_the_list_of_verbs_is_whole() -> None:
    said = " ".join(tierfold("--help").stdout.split())
    assert "..." not in said.partition("Commands:")[2]
    assert "forget Accept that a log was truncated, or take over what brokers have." in said


def test_without_a_verb_it_prints_its_help() -> None:
    ran = tierfold()
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == tierfold("--help").stdout


def test_help_lists_the_exit_codes_and_the_version_is_printed() -> None:
    ran = tierfold("--help")
    assert ran.code == 0
    assert not told(ran.stdout, "Exit codes", "3 a partition failed", "4 fenced", *VERBS)
    version, kafka, pages = tierfold("--version").stdout.splitlines()
    assert version == f"tierfold, version {package.__version__}"
    assert kafka == f"compared with the cleaners of Kafka {' and '.join(KAFKA_VERSIONS)}"
    assert Path(pages.removeprefix("messages name pages of "), "operations.md").is_file()
    for verb in (*VERBS, "dump"):
        assert "Example" in tierfold(verb, "--help").stdout


def test_status_names_segments_in_offset_order(tier: Path) -> None:
    ran = tierfold("status", tier, "--json", "--segments")
    assert (ran.code, ran.stderr) == (0, "")
    entry = ran.entry
    assert entry["topic_id"] == ORDERS.topic_id
    assert (entry["epoch"], entry["cleaner_offset"], entry["log_start_offset"]) == (0, None, 0)
    first, second = entry["segments"]
    assert (first["start_offset"], first["end_offset"]) == (0, 10)
    assert (second["start_offset"], second["end_offset"]) == (11, 21)
    for segment in (first, second):
        assert set(segment) >= {"id", "size_bytes", "max_timestamp_ms", "leader_epochs", "log"}
        log = Path(segment["log"])
        assert log.stat().st_size == segment["size_bytes"]
        assert segment["id"] in log.name
        assert segment["leader_epochs"] == [{"epoch": 3, "start_offset": segment["start_offset"]}]
    assert entry["clean_bytes"] == 0
    assert entry["cleanable_bytes"] == first["size_bytes"] + second["size_bytes"]
    people = tierfold("status", tier)
    assert not told(people.stdout, "orders-0", "0–21")


def test_the_catalog_lies_in_the_tier_by_default(tier: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "catalog"
    ran = tierfold("compact", tier, *ALWAYS, "--catalog", str(elsewhere), "--json")
    assert ran.outcomes == {("orders", 0): "compacted"}
    assert not (tier / "_tierfold").exists()
    assert Catalog(str(elsewhere)).read([ORDERS])[ORDERS].epoch == 1
    seen = status_of(tier, "--catalog", str(elsewhere))["orders", 0]
    assert live_values(seen) == latest_updates(2)
    by_uri = status_of(tier, "--catalog", elsewhere.as_uri())["orders", 0]
    assert by_uri == seen


def test_the_printed_report_says_what_was_done(tier: Path) -> None:
    ran = tierfold("compact", tier, *ALWAYS)
    assert ran.code == 0
    assert not told(ran.stdout, "run ", "orders-0", "compacted", "0–21", "2 → 1")
    assert "22 records: 7 kept, 15 superseded." in ran.stdout
    again = tierfold("compact", tier, *ALWAYS)
    assert "Nothing to do: no segment was opened or written." in again.stdout


def compacted_once(folder: Path) -> Path:
    """Two segments, compacted; then one more."""
    tier = updated_tier(folder, [ORDERS], 2)
    assert tierfold("compact", tier, *ALWAYS).code == 0
    put_updates(tier, ORDERS, 2)
    return tier


compacted = copied(compacted_once)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("corrupt", ["torn", "rubbish", "gone"])
def test_a_damaged_catalog_is_one_clear_sentence(compacted: Path, verb: str, corrupt: str) -> None:
    # Without its rows originals and replacements would both be taken for live: better none.
    log = compacted / "_tierfold" / "partitions" / "_delta_log"
    newest = sorted(log.glob("*.json"))[-1]
    match corrupt:
        case "torn":
            newest.write_bytes(newest.read_bytes()[:40])
        case "rubbish":
            newest.write_bytes(b"rubbish\n")
        case _:
            for rows in (compacted / "_tierfold" / "partitions").rglob("*.parquet"):
                rows.unlink()
    before = files_below(compacted)
    ran = tierfold(verb, compacted, *ALWAYS, "--json")
    assert ran.code == 3, ran
    assert not told(ran.stderr, "tierfold: ", "_tierfold/partitions"), ran.stderr
    document = json.loads(ran.stdout)
    said = {"reason": ran.stderr.strip().removeprefix("tierfold: "), "outcome": "unreadable"}
    assert document == document | said | {"verb": verb, "partitions": []}
    assert tierfold(verb, compacted, *ALWAYS).stdout == ""
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert files_below(compacted) == before


def test_without_its_catalog_a_compacted_partition_is_refused(compacted: Path) -> None:
    shutil.rmtree(compacted / "_tierfold")
    ran = tierfold("compact", compacted, *ALWAYS, "--json")
    ran.ends_alone(3, "refused", "its catalog is missing: bring `_tierfold` back", "--catalog")
    assert not (compacted / "_tierfold").exists()
