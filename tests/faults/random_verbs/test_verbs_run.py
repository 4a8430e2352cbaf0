"""`verbs_run`, which `make soak` calls, kills runs in their own processes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from tests.compaction.builders import segment_id
from tests.faults.kills.planned_kills import ON_BOTH, Target, Trigger, planned_kills
from tests.faults.random_verbs.verbs_machine import Machine
from tests.faults.random_verbs.verbs_people import to_set_aside
from tests.faults.random_verbs.verbs_run import killer
from tierfold.compaction.commits.forget import Obstacles

SEED: Final = 56
"""The first kill that is planned with this seed hits a run without Spark at its first file."""


def test_a_run_in_its_own_process_is_killed_and_the_tier_stays_sound(tmp_path: Path) -> None:
    (first,) = islice(planned_kills(SEED, ON_BOTH), 1)
    assert (first.target, first.trigger, first.on_spark) == (Target.ALL, Trigger.WRITTEN, False)
    # On a busy machine a kill may come too late.
    assert any(is_hit(tmp_path / str(number)) for number in range(5))


def is_hit(folder: Path) -> bool:
    """Carry out the first kill on a new tier and check the tier; whether the run was killed."""
    folder.mkdir()
    kill = killer(folder, SEED)
    machine = Machine(folder / "tier", SEED)
    machine.trace.append("kill")
    kill(machine)
    machine.inspect()
    return machine.counts["kill: all"] == 1


@pytest.mark.parametrize("orphans", [(), (segment_id("orphan"),)])
def test_a_person_moves_away_what_a_refusal_names_once_vacuum_can_delete_no_more(
    orphans: tuple[str, ...],
) -> None:
    doubtful = (segment_id("one"), segment_id("other"))
    obstacles = Obstacles(written=(), retired=(), orphans=orphans, doubtful=doubtful)
    reason = obstacles.refusal(uploads_at="").sentence
    assert to_set_aside(reason) == (set() if orphans else set(doubtful))
