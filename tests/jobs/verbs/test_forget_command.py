"""`tierfold forget` prints what it will do, and `history` reports it afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.jobs.claims import row_of
from tests.jobs.commands import ALWAYS, COMPACT, status_of, tierfold, told
from tests.jobs.elections import (
    FIRST_MS,
    NEW,
    ORDERS,
    claimed,
    histories,
    known,
    merged,
    old_history,
    part_of,
    upload,
)
from tests.jobs.tiers import (
    files_below,
    folder_of,
    key_of,
    live_values,
    made_tier,
    put_updates,
)
from tierfold.jobs.cli import commands as cli
from tierfold.storage.tiers.remote_tier import Part


def test_its_help_and_what_it_prints_fit_80_columns(tmp_path: Path) -> None:
    tier, first, second, newest = histories(tmp_path / "tier")
    planned = tierfold("forget", tier, "orders-0", "--dry-run")
    assert (planned.code, planned.stderr) == (0, "")
    ids = [segment.segment_id for segment in (first, second, newest)]
    assert not told(planned.stdout, "orders-0: planned", "Offsets that vanish: 10–10", *ids)
    forgotten = tierfold("forget", tier, "orders-0")
    again = tierfold("forget", tier, "orders-0")
    assert not told(forgotten.stdout, "orders-0: forgotten", "vanish: 10–10")
    assert "Nothing is changed" not in forgotten.stdout
    assert not told(again.stdout, "orders-0: nothing to do", "nothing to forget")
    for ran in (planned, forgotten, again, tierfold("forget", "--help")):
        assert max(map(len, ran.stdout.splitlines())) <= 80, ran.stdout


def test_the_history_lists_it_and_no_restore_crosses_it(tmp_path: Path) -> None:
    tier, *_ = histories(tmp_path / "tier")
    assert tierfold("forget", tier, "orders-0").code == 0
    shown = tierfold("history", tier, "orders-0")
    assert (shown.code, "forgotten" in shown.stdout) == (0, True)
    claimed(tier, "next", at_ms=FIRST_MS + 20)
    lines = tierfold("history", tier, "orders-0", "--json").entries[0]["history"]
    assert [line["event"] for line in lines] == ["found", "forgotten", "found"]
    assert [(line["segments_in"], line["segments_out"]) for line in lines] == [
        (0, 2),
        (2, 0),
        (0, 2),
    ]
    assert [line["is_restorable"] for line in lines] == [True, False, False]
    assert "`tierfold forget` emptied this partition's row" in lines[1]["why_not"]
    assert "being deleted or forgotten" in lines[2]["why_not"]
    to = str(lines[2]["committed_at_ms"])
    assert tierfold("restore", tier, "orders-0", "--to", to).code == 3


def test_wrong_names_and_the_help(tmp_path: Path) -> None:
    tier = made_tier(tmp_path / "tier")
    upload(tier, 0, 5)
    ran = tierfold("forget", tier, "order-0")
    ran.refuses("no partition has the name 'order-0'", "orders-0?")
    assert not told(tierfold("forget", "--help").stdout, "Examples", "cannot be undone")
    assert not told(tierfold("vacuum", "--help").stdout, "--diverged", "tier.binding=detached")


def test_status_and_plan_of_a_refused_partition_show_its_row(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    originals = old_history(tier)
    ours = merged(tier)
    upload(tier, 6, 9, NEW)
    row = row_of(tier)
    assert row.epoch > 0
    status = status_of(tier)["orders", 0]
    assert "unclean leader election" in status["reason"]
    assert (status["epoch"], status["committed_at_ms"]) == (row.epoch, row.committed_at_ms)
    assert (status["cleaner_offset"], status["log_start_offset"]) == (row.cleaner_offset, 0)
    assert [segment["id"] for segment in status["segments"]] == [ours.segment_id]
    assert len(status["retired"]) == len(originals)
    shown = tierfold("status", tier).stdout
    assert not told(" ".join(shown.split()), "refused, see below", "2 segments retired")
    (part,) = status["refusals"]
    line = f"orders-0: {part['detail']} [lineage_diverged]. {part['remedy']}"
    assert line in shown.splitlines()
    assert tierfold("plan", tier, "--json", *COMPACT).entries[0]["epoch"] == row.epoch
    vacuumed = tierfold("vacuum", tier, "--json", "--dry-run").entries[0]
    assert (vacuumed["outcome"], vacuumed["epoch"]) == ("refused", row.epoch)


def test_a_checkpoint_that_its_batches_contradict_is_not_trusted(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    known(tier)
    forged = upload(tier, 6, 9)
    checkpoint = part_of(tier, forged, Part.LEADER_EPOCH_CHECKPOINT)
    backup = checkpoint.read_bytes()
    checkpoint.write_text("0\n2\n3 0\n4 6\n")
    assert tierfold("plan", tier, *COMPACT).code == 3
    ran = tierfold("forget", tier, "orders-0", "--json", "--dry-run")
    (entry,) = ran.entries
    assert (ran.code, entry["outcome"]) == (3, "refused")
    said = "compare it with the broker's leader-epoch-checkpoint or a backup"
    assert not told(entry["reason"], forged.segment_id, "have other leader epochs", said)
    assert checkpoint.read_bytes() != backup
    checkpoint.write_bytes(backup)
    assert tierfold("plan", tier, *COMPACT).code == 0
    assert tierfold("forget", tier, "orders-0", "--json").outcomes["orders", 0] == "nothing_to_do"
    assert tierfold("compact", tier, *ALWAYS).code == 0
    # Offset 10 is still there: no election cut it off.
    epoch_3 = {b"k0": b"3/8", b"k1": b"3/9", b"k2": b"3/10", b"k3": b"3/7"}
    assert live_values(status_of(tier)["orders", 0]) == epoch_3
    assert tierfold("verify", tier).code == 0


def test_a_checkpoint_that_is_the_same_elsewhere_leaves_the_topic_out(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    old_history(tier)
    known(tier)
    part_of(tier, upload(tier, 6, 9), Part.LEADER_EPOCH_CHECKPOINT).write_text("0\n2\n3 0\n4 6\n")
    others = key_of("payments")
    put_updates(tier, others, 0)
    said = tierfold("forget", tier, "orders-0", "--json").entries[0]["reason"]
    assert not told(said, "otherwise leave the topic out (name the others with --topic)")
    before = files_below(folder_of(tier, ORDERS))
    ran = tierfold("compact", tier, *ALWAYS, "--topic", "payments", "--json")
    assert (ran.code, ran.outcomes) == (0, {("payments", 0): "compacted"})
    assert files_below(folder_of(tier, ORDERS)) == before


@pytest.mark.parametrize("verb", ["forget", "restore", "vacuum"])
def test_a_document_under_spark_submit_has_the_joined_outputs_to_itself(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    tier = tmp_path / "tier"
    if verb == "restore":
        old_history(tier)
        merged(tier)
    else:
        histories(tier)
    # The record of the run cannot be kept, and stderr gets a warning.
    (tier / "_tierfold" / "runs").write_bytes(b"")
    options = ["orders-0", "--to", str(FIRST_MS)] if verb == "restore" else []
    place = ["orders-0"] if verb == "forget" else options
    ran = CliRunner().invoke(cli.tierfold, [verb, str(tier), *place, "--json"])
    assert json.loads(ran.output)["partitions"], ran.output
