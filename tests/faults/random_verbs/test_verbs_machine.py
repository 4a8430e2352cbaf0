"""Random verbs on one tier: a hundred steps violate no invariant, and planted bugs are found.

`make soak` plays thousands of steps and kills runs in their own processes (`verbs_run`).
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.faults.random_verbs import verbs_broker as broker
from tests.faults.random_verbs.verbs_checks import Forgetting, Violation
from tests.faults.random_verbs.verbs_faults import Fault
from tests.faults.random_verbs.verbs_machine import HOUR_MS, Machine
from tests.faults.random_verbs.verbs_model import Partition
from tests.faults.random_verbs.verbs_people import (
    forget_until_done,
    is_diverged,
    vacuum_later,
)
from tests.faults.random_verbs.verbs_steps import play
from tests.jobs.commands import ALWAYS, Ran
from tierfold.compaction.discovery import draft, drafted_view, facts, overlaps
from tierfold.compaction.discovery.candidates import Candidate
from tierfold.compaction.discovery.histories import History
from tierfold.compaction.discovery.view import Refusal, RefusalReason
from tierfold.compaction.planning import plan
from tierfold.compaction.publishing import next_step
from tierfold.jobs.settings.resolution import Settings
from tierfold.jobs.verbs import forget as forget_job

SEED = 4
STEPS = 100


@pytest.mark.soak
def test_a_hundred_steps_violate_no_invariant_and_reach_every_event(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "tier", SEED)
    play(machine, STEPS)
    assert len(machine.trace) == STEPS
    assert {what for what, found in machine.checker.events.items() if found} >= {
        "an overlapping upload was taken",
        "a segment was compacted",
        "an upload was set apart",
        "an upload was an orphan",
        "an upload was deleted",
        "a partition was refused",
    }
    assert machine.counts["published: done"]


def test_a_seed_always_draws_the_same_steps(tmp_path: Path, monkeypatch: Any) -> None:
    drawn = []
    monkeypatch.setattr(Machine, "verb", lambda *_, **__: None)
    for name in ("one", "other"):
        machine = Machine(tmp_path / name, SEED)
        play(machine, 40)
        drawn.append(machine.trace)
    assert drawn[0] == drawn[1]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A tier to which brokers have uploaded their whole logs, compacted once."""
    found = Machine(tmp_path / "tier", SEED)
    found.trace.append("first")
    for partition in found.partitions:
        while upload := broker.next_segment(found.rng, partition):
            broker.put(partition, upload, found.now_ms)
    found.verb("compact", found.tier, *ALWAYS)
    found.inspect()
    return found


def completed(machine: Machine, verb: str, *words: str, fault: Fault | None = None) -> Ran:
    """Run a verb that is not killed."""
    ran = machine.verb(verb, machine.tier, *words, fault=fault)
    assert ran is not None
    return ran


def uploaded(machine: Machine, *, parts: int | None = None) -> Partition:
    """Upload a segment, or only its first `parts` objects, to the first partition."""
    partition = machine.partitions[0]
    broker.append(machine.rng, partition, 2, machine.now_ms)
    upload = broker.next_segment(random.Random(0), partition)
    assert upload is not None
    broker.put(partition, upload, machine.now_ms, parts=parts)
    return partition


def test_a_vacuum_of_an_incomplete_upload_that_alone_has_offsets_is_found(
    machine: Machine, monkeypatch: Any
) -> None:
    uploaded(machine, parts=2)
    machine.inspect()

    def planted(segment: Candidate, row: object) -> bool:
        return row is not None and not segment.listed.is_complete

    monkeypatch.setattr(drafted_view, "is_orphan", planted)
    with pytest.raises(Violation, match="is gone, but no live segment gives its records"):
        machine.inspect(vacuum_later(machine, hours=30))


def truncated(machine: Machine) -> Partition:
    """Truncate the log of the first partition, whose live segments are compacted."""
    partition = machine.partitions[0]
    broker.elect_uncleanly(machine.rng, partition)
    uploaded(machine)
    machine.inspect()
    assert is_diverged(machine, partition)
    return partition


def test_a_truncated_history_that_readers_still_get_is_found(
    machine: Machine, monkeypatch: Any
) -> None:
    truncated(machine)

    def planted(inspected: Any, row: Any) -> History:
        return History(lineage=row.lineage, fitting=(), apart=tuple(inspected))

    monkeypatch.setattr(facts, "decided_history", planted)
    with pytest.raises(Violation, match="has other records at live offsets"):
        machine.inspect()


def test_a_truncated_partition_is_forgotten_and_continues(machine: Machine) -> None:
    partition = truncated(machine)
    forget_until_done(machine, partition)
    assert machine.counts["restore: restored"] == 1
    assert machine.counts["vacuum: vacuumed"]
    assert machine.counts["forget: forgotten"] == 1
    machine.verb("compact", machine.tier, *ALWAYS)
    machine.inspect()
    assert len(machine.checker.events["a forgotten partition continued"]) == 1


def test_a_forget_that_accepts_any_partition_is_found(machine: Machine, monkeypatch: Any) -> None:
    partition = machine.partitions[0]
    name = partition.folder.name
    (entry,) = completed(machine, "history", name).entries
    first = str(entry["history"][-1]["committed_at_ms"])
    machine.verb("restore", machine.tier, name, "--to", first)
    machine.inspect(vacuum_later(machine))
    sound = Refusal(reason=RefusalReason.LINEAGE_DIVERGED, detail="as planted", remedy="")
    monkeypatch.setattr(forget_job, "divergence", lambda _: sound)
    with pytest.raises(Violation, match="is sound, but forget accepts it"):
        machine.verb("forget", machine.tier, name)
    with pytest.raises(Violation, match="no leader has truncated its log"):
        machine.inspect(Forgetting(topic_id=partition.topic_id))


def test_a_forget_that_accepts_no_partition_is_found(machine: Machine, monkeypatch: Any) -> None:
    partition = truncated(machine)
    monkeypatch.setattr(forget_job, "divergence", lambda _: None)
    with pytest.raises(Violation, match="is diverged, but not forgotten"):
        forget_until_done(machine, partition)


def test_refusals_that_never_end_are_found(machine: Machine, monkeypatch: Any) -> None:
    partition = truncated(machine)
    verb = Machine.verb

    def without_restore(machine: Machine, *words: Any, **named: Any) -> Any:
        return None if words[0] == "restore" else verb(machine, *words, **named)

    monkeypatch.setattr(Machine, "verb", without_restore)
    with pytest.raises(Violation, match="is refused again and again"):
        forget_until_done(machine, partition)


def test_an_overlapping_upload_that_is_ignored_is_found(
    machine: Machine, monkeypatch: Any
) -> None:
    partition = machine.partitions[0]
    broker.elect_cleanly(random.Random(1), partition)
    uploaded(machine)
    assert partition.next_upload > machine.entries[partition.topic_id]["segments"][-1]["end_offset"]

    def without_overlaps(reached: int, candidates: Any, *rest: Any) -> overlaps.Chain:
        beyond = [c for c in candidates if c.start_offset > reached]
        return overlaps.chain_of(reached, beyond, *rest)

    monkeypatch.setattr(draft, "chain_of", without_overlaps)
    with pytest.raises(Violation, match="the view ends at"):
        machine.inspect()


def test_a_batch_that_brokers_would_lose_offsets_by_is_found(
    machine: Machine, monkeypatch: Any
) -> None:
    swap_batch = next_step.swap_batch

    def backwards(*given: Any, **options: Any) -> Any:
        return (swap_batch(*given, **options) or ())[::-1]

    monkeypatch.setattr(next_step, "swap_batch", backwards)
    with pytest.raises(Violation, match="would lose offsets"):
        machine.inspect()


def stalled(machine: Machine) -> None:
    """Let an upload wait for two days, because the one below it is missing."""
    partition = machine.partitions[0]
    broker.append(machine.rng, partition, 8, machine.now_ms)
    assert broker.next_segment(machine.rng, partition) is not None
    uploaded(machine)
    machine.now_ms += 49 * HOUR_MS
    machine.inspect()


def test_a_stalled_partition_with_exit_code_0_is_found(
    machine: Machine, monkeypatch: Any
) -> None:
    stalled(machine)
    # First compact what is due for other reasons, such as expired tombstones.
    machine.verb("compact", machine.tier, *ALWAYS)
    machine.inspect()
    assert completed(machine, "plan", *ALWAYS).code == 3
    monkeypatch.setattr(plan, "STALL_AGE_MS", 99 * HOUR_MS)
    with pytest.raises(Violation, match="is left unchanged, but these have waited for a day"):
        machine.verb("plan", machine.tier, *ALWAYS)


def test_a_refusal_without_a_reason_is_found(machine: Machine, monkeypatch: Any) -> None:
    monkeypatch.setattr(plan, "STALL_AGE_MS", -99 * HOUR_MS)
    uploaded(machine, parts=2)
    machine.inspect()
    with pytest.raises(Violation, match="is refused"):
        machine.verb("plan", machine.tier, *ALWAYS)


def test_a_traceback_is_found(machine: Machine, monkeypatch: Any) -> None:
    def broken(self: Settings, topics: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(Settings, "rules_by_topic", broken)
    with pytest.raises(Violation, match=r"(?s)exit 1.*ZeroDivisionError"):
        machine.verb("vacuum", machine.tier, *ALWAYS)


def test_a_status_that_refuses_with_exit_code_0_is_found(
    machine: Machine, monkeypatch: Any
) -> None:
    uploaded(machine)
    partition = machine.partitions[0]
    path = Path(machine.entries[partition.topic_id]["segments"][0]["log"])
    partition.damaged[path] = path.read_bytes()
    path.unlink()
    monkeypatch.setattr("tierfold.jobs.cli.exit_codes.EXIT_PARTITION_FAILED", 0)
    with pytest.raises(Violation, match="status ended with 0"):
        machine.inspect()


def test_damage_by_others_is_no_violation(machine: Machine) -> None:
    partition = machine.partitions[0]
    log = Path(machine.entries[partition.topic_id]["segments"][0]["log"])
    partition.damaged[log] = log.read_bytes()
    log.unlink()
    machine.checker.accept_changes(partition)
    machine.inspect()
    assert machine.problem(partition)


def test_a_killed_verb_does_not_stop_the_machine(machine: Machine) -> None:
    fault = Fault(kind="killed", call="look", number=1)
    assert machine.verb("vacuum", machine.tier, *ALWAYS, fault=fault) is None
    assert machine.counts["vacuum killed"] == 1
    assert completed(machine, "vacuum", *ALWAYS).code == 0


def test_an_error_of_the_operating_system_reaches_the_verb(machine: Machine) -> None:
    fault = Fault(kind="file error", call="scandir", number=4, error=5)
    ran = completed(machine, "plan", *ALWAYS, fault=fault)
    assert ran.code == 3
    assert "input/output error" in ran.stdout
