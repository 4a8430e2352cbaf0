"""The search finds planted bugs: each leaves one rule of the protocol out, or does one thing wrong.

docs/reliability.md says how many states each bug takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pytest

from tests.faults.publishing_search import search_bugs
from tests.faults.publishing_search.search import Search
from tests.faults.publishing_search.search_scenarios import SCENARIOS
from tests.faults.publishing_search.search_state import Mistake

Bug = Callable[[pytest.MonkeyPatch], None]


class Planted(NamedTuple):
    """Where a bug is found, and what the search says of it."""

    scenario: str
    finds: str
    bugs: tuple[Bug, ...] = ()
    """In the product."""
    mistake: Mistake | None = None
    """In the shell around it."""
    is_checked: bool = False
    """Whether only the check of events shows it."""


PLANTED: Final = {
    "deletes descend": Planted("one run", "out of range", (search_bugs.deletes_descend,)),
    "deletes come before finished": Planted(
        "one run", "out of range", (search_bugs.deletes_come_first,)
    ),
    "a replacement is cancelled": Planted(
        "two runs", "a send that arrives late", (), Mistake.CANCELS
    ),
    "objects of a started one count as orphans": Planted(
        "an overlap and a vacuum", "missing", (search_bugs.started_ones_count_as_orphans,)
    ),
    "an id lives again": Planted(
        "two runs", "objects are missing", (), Mistake.REVIVES
    ),
    "gone is sent before objects are gone": Planted(
        "vacuum", "objects are still there", (search_bugs.gone_is_sent_first,)
    ),
    "objects go before they are listed": Planted(
        "vacuum", "objects are missing", (), Mistake.DELETES_UNLISTED
    ),
    "a second started with other bytes": Planted(
        "two runs", "cannot finish", (), Mistake.STARTS_AGAIN
    ),
    "a batch is split within a group": Planted(
        "one run", "out of range", (), Mistake.SPLITS_BATCHES
    ),
    "groups descend": Planted(
        "groups one by one", "key a is 1 instead of None", (search_bugs.groups_descend,)
    ),
    "groups of a restore ascend": Planted(
        "a restore", "key a is 1 instead of None", (search_bugs.restores_ascend,)
    ),
    "a group of a restore ascends": Planted(
        "a restore of sources that were cut",
        "key b is 3 instead of None",
        (search_bugs.restored_groups_ascend,),
    ),
    "a source cut in several, finished ascending": Planted(
        "a source cut in two", "out of range", (search_bugs.no_order_is_checked,)
    ),
    "an unreferenced overlap is left out": Planted(
        "an overlap", "brokers still read it", (search_bugs.unreferenced_ones_are_left_out,)
    ),
    "a replacement beside a live upload": Planted(
        "an overlap of a whole group",
        "out of range",
        (search_bugs.others_stay_beside, search_bugs.no_order_is_checked),
    ),
    "a replacement beside an upload at work": Planted(
        "an overlap of a whole group", "out of range", (search_bugs.uploads_are_not_awaited,)
    ),
    "a union instead of effective ranges": Planted(
        "a given up upload of the first segment",
        "key a is 1 instead of None",
        (search_bugs.uploads_within_are_merged,),
        Mistake.JOINS_RECORDS,
    ),
    "a tombstone goes before a reader that pauses has seen it": Planted(
        "a reader that pauses", "a reader that paused", (), Mistake.DROPS_TOMBSTONES
    ),
    "a tombstone goes with what it hides": Planted(
        "a tombstone behind a source that is cut",
        "key c is 4 instead of None",
        (),
        Mistake.DROPS_TOMBSTONES,
    ),
    "a hole is not repaired": Planted(
        "an overlap of a whole group", "do not mend it", (search_bugs.holes_are_not_repaired,)
    ),
    "a hole waits for a merge": Planted(
        "a given up upload is finished", "do not mend it", (search_bugs.uploads_within_are_merged,)
    ),
    "a hole waits for an upload at work": Planted(
        "a given up upload beside one at work",
        "do not mend it",
        (search_bugs.holes_wait_for_uploads,),
    ),
    "a retired segment mends a hole": Planted(
        "an overlap in two epochs",
        "its own check forbids repair",
        (search_bugs.retired_ones_repair,),
        is_checked=True,
    ),
    "a retired segment is merged": Planted(
        "one run", "for ever", (search_bugs.retired_ones_are_merged,)
    ),
    "a segment of another history is merged": Planted(
        "another history that is not given up",
        "its own check forbids",
        (search_bugs.other_histories_count,),
        is_checked=True,
    ),
    "a grace period shorter than a send can be late": Planted(
        "two runs", "objects are missing", (), Mistake.SENDS_LATE
    ),
    "no grace period": Planted(
        "vacuum", "objects are missing", (search_bugs.the_grace_period_is_nothing,)
    ),
    "a broker that lags longer than the grace period": Planted(
        "vacuum", "objects are missing", (), Mistake.LAGS
    ),
    "a partition waits for ever": Planted(
        "a dead upload", "for ever", (search_bugs.dead_uploads_are_awaited,)
    ),
    "a late start stays": Planted(
        "a late start", "in no row", (search_bugs.forgotten_starts_stay,)
    ),
    "sources below the log start stay": Planted(
        "log start", "cannot finish", (search_bugs.the_log_start_hides_sources,)
    ),
    "a rebuild forgets what brokers have in memory": Planted(
        "lost metadata and a source that is cut",
        "out of range",
        (search_bugs.rebuilds_forget_memory,),
    ),
    "a rebuild of a restore ascends": Planted(
        "lost metadata and a restore",
        "key a is 1 instead of None",
        (search_bugs.rebuilt_restores_ascend,),
    ),
    "a rebuild finishes what another segment contains": Planted(
        "lost metadata and an upload within another",
        "out of range",
        (search_bugs.rebuilds_finish_inner_ones,),
    ),
    "a rebuild finishes what is retired": Planted(
        "lost metadata and a vacuum",
        "objects are missing",
        (search_bugs.rebuilds_finish_retired_ones,),
    ),
    "a rebuild names what lies below the log start": Planted(
        "lost metadata and a log start",
        "its own check forbids name again",
        (search_bugs.rebuilds_go_below_the_log_start,),
        is_checked=True,
    ),
    "a rebuild notes the topic early": Planted(
        "lost metadata", "cannot finish", (), Mistake.NOTES_EARLY
    ),
    "a broker restarts before a rebuild": Planted(
        "lost metadata", "out of range", (), Mistake.RESTARTS_EARLY
    ),
    "a live segment that brokers deleted goes unnoticed": Planted(
        "a live segment is listed",
        "live and not published",
        (search_bugs.deleted_ones_count_as_live,),
    ),
}
STATES_MAX: Final = 5000
STOPPED_BY_THE_CHECK: Final = (
    "deletes come before finished",
    "gone is sent before objects are gone",
    "a replacement beside a live upload",
    "no grace period",
)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    for bug in planted.bugs:
        bug(monkeypatch)
    mistakes = () if planted.mistake is None else (planted.mistake,)
    search = Search(SCENARIOS[planted.scenario], mistakes, is_checked=planted.is_checked)
    searched = search.result(STATES_MAX)
    assert searched.problem is not None, searched
    assert planted.finds in searched.problem
    assert searched.way


@pytest.mark.parametrize("name", STOPPED_BY_THE_CHECK)
def test_the_check_of_events_does_not_let_it_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PLANTED[name]
    for bug in planted.bugs:
        bug(monkeypatch)
    problem = Search(SCENARIOS[planted.scenario]).result(STATES_MAX).problem
    assert "its own check forbids" in str(problem)
