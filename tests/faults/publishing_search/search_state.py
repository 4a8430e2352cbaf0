"""What a search tries, and one state of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from tests.compaction.builders import epochs
from tests.compaction.looks import LIMITS
from tests.faults.publishing_search.search_readers import TheLog
from tests.faults.publishing_search.search_segments import (
    OLD,
    Record,
    Row,
    Stored,
    row_of,
    upload_of,
)
from tests.faults.publishing_search.search_views import (
    NOTHING,
    Sent,
    View,
    after,
    given_to,
    started_of,
)
from tierfold.compaction.brokers.events import SegmentState

Bounds = tuple[int, int]
Happening = tuple[str, tuple[object, ...]]
"""What happened, and to what; put into words only where it is shown."""

RECORDS: Final = (
    Record(0, "a", 1),
    Record(1, "a", None),
    Record(2, "b", 2),
    Record(3, "b", 3),
    Record(4, "c", 4),
    Record(5, "c", None),
    Record(6, "b", None),
)


class Window(Enum):
    """How long offsets may be out of range."""

    NONE = auto()
    NEXT_LOOK = auto()
    """Until the next look: an upload was finished between a look and its batch (PUBLISHING 8)."""
    NEXT_RUN = auto()
    """Until a run has copied what brokers deleted against all rules."""


class Tombstones(Enum):
    """When a round drops a tombstone."""

    GO = auto()
    """At once, with what it hides: that is harder for the order of events than the product is."""
    STAY_A_PASS = auto()
    """Not with what it hides, but with the next round (PUBLISHING 5.2, as if time had passed)."""
    STAY = auto()
    """Never: `delete.retention.ms` is long."""


class Loss(Enum):
    """How the metadata topic is lost, once."""

    NONE = auto()
    TRUNCATED = auto()
    """Brokers read what is written to it from then on."""
    CREATED_AGAIN = auto()
    """They read none of it before they restart."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Who acts, on which log, and what may happen meanwhile."""

    runs: str
    """A run that compacts for each letter; V is a vacuum, Z a restore of what brokers uploaded, M a
    rebuild."""
    ended: int = 0
    """How many of them have ended before anything else happens."""
    one_group: str = ""
    """The runs that put all that they take into one group."""
    cuts: tuple[int, ...] = ()
    """Offsets at which a group's replacements begin."""
    margin: int = 1
    """The newest segments that a round leaves alone."""
    plans: int = 1
    """How many rounds and merges each run writes."""
    tombstones: Tombstones = Tombstones.GO
    has_second_broker: bool = False
    """Consumers read from another broker as well, which has read less or more of the topic."""
    has_reader: bool = False
    """A consumer reads from the start on, a segment at a time, and may pause."""
    offsets: int = 4
    segments: tuple[Bounds, ...] = ((0, 0), (1, 1), (2, 2), (3, 3))
    """What brokers uploaded before."""
    lineage: tuple[tuple[int, int], ...] = ((0, 0),)
    """Leader epochs with their first offsets."""
    uploads: tuple[Bounds, ...] = ()
    """What leaders upload meanwhile; each may stay unfinished for ever."""
    begun_uploads: tuple[Bounds, ...] = ()
    """What leaders began to upload before, and may finish at any time."""
    are_given_up: bool = False
    """Whether they were begun that long ago."""
    dead_uploads: tuple[Bounds, ...] = ()
    """What leaders began to upload and never finish."""
    diverged: tuple[Bounds, ...] = ()
    """Finished segments of a leader that was deposed."""
    diverged_epoch: int = 1
    gives_up: bool = True
    """Whether the row has retired them, as `forget` does."""
    is_clock_ahead: bool = False
    """Whether these are listed already, by a clock that is a grace period ahead."""
    late_starts: tuple[Bounds, ...] = ()
    """Segments of ours that a late send started, and that no row remembers."""
    log_starts: tuple[int, ...] = ()
    """Where DeleteRecords may move the log start."""
    strays: int = 0
    """How often brokers may list a live segment for deletion, for no reason. Not the first of the
    log, as they would delete its objects at once."""
    repeats: int = 0
    """How many sends may arrive twice."""
    batch_bytes_max: int = LIMITS.batch_bytes_max
    passes_time: bool = False
    slow_looks: bool = False
    """Others may act between the reading of the row and that of the topic."""
    loss: Loss = Loss.NONE
    stops_copying: bool = False
    """Whether a person stops copying then, so that a broker may restart before the rebuild."""
    cuts_lineage: bool = False
    """Brokers forget leader epochs below the log start."""
    local_start: int = 99
    window: Window = Window.NONE

    @property
    def log(self) -> TheLog:
        """The partition as it was written."""
        return TheLog(
            records=RECORDS[: self.offsets],
            lineage=epochs(*self.lineage),
            local_start=self.local_start,
        )


class Mistake(Enum):
    """What a planted shell does wrong, where the product decides right."""

    SPLITS_BATCHES = auto()
    """A batch is sent as two."""
    CANCELS = auto()
    """A run that takes over drops a replacement that is only started."""
    DELETES_UNLISTED = auto()
    """A vacuum deletes what the row has retired, and publishes nothing before."""
    REVIVES = auto()
    """A run that takes over makes retired segments live again, under their ids."""
    STARTS_AGAIN = auto()
    """A run that takes over starts a replacement once more, with another end."""
    SENDS_LATE = auto()
    """The grace period is shorter than a send can be late."""
    LAGS = auto()
    """Brokers read the topic later than the grace period."""
    DROPS_TOMBSTONES = auto()
    """A round drops a tombstone together with what it hides."""
    JOINS_RECORDS = auto()
    """A merge takes all records of its sources, not those of their effective ranges."""
    RESTARTS_EARLY = auto()
    """A broker restarts before all is named again, and no one has stopped the copying."""
    NOTES_EARLY = auto()
    """A rebuild notes the topic in the row once all is started."""


class Step(Enum):
    """Where a run stands."""

    START = auto()
    LOOK = auto()
    DECIDE = auto()
    SENT = auto()
    COMMIT = auto()
    DELETE = auto()
    END = auto()


class Rewrite(NamedTuple):
    """Segments, and those that were written in their place."""

    sources: tuple[Stored, ...]
    made: tuple[Stored, ...]


class Run(NamedTuple):
    """A run of the product, or a vacuum."""

    name: str
    plans_left: int
    step: Step = Step.START
    epoch: int = -1
    seen: Row | None = None
    """The row that it read, if it looks slowly."""
    plan: tuple[Rewrite, ...] = ()
    todo: tuple[Stored, ...] = ()
    """Segments whose objects it is about to delete."""


class Message(NamedTuple):
    """A send that was not acknowledged: its batch may still arrive."""

    run: int | None
    """The run that waits for it."""
    events: tuple[Sent, ...]
    age: int
    races: bool = False
    """Whether a leader began an upload after the look that it is from."""


class Reading(NamedTuple):
    """How far a consumer has read."""

    next_offset: int
    values: tuple[tuple[str, int | None], ...]
    """The last value of each key that it read, in the order of the keys."""


class Topic(NamedTuple):
    """What became of the metadata topic."""

    may_be_lost: bool = False
    was_lost: bool = False
    is_lost: bool = False
    """Whether the row does not note the topic as it is."""
    is_unread: bool = False
    """Whether brokers do not read what is written to it, until they restart."""
    has_gap: bool = False
    """Whether brokers had not read all that was lost, and do not have what the topic says yet."""
    is_copying: bool = True
    tiered_end: int = -1
    """What a broker that restarted while it was lost had known as tiered; -1: none did."""

    @property
    def is_forgotten(self) -> bool:
        """Whether a broker has nothing in memory, and the topic does not name all yet."""
        return self.is_lost and self.tiered_end >= 0 and not self.is_copying


class State(NamedTuple):
    """Everything that a search remembers."""

    row: Row
    view: View
    """After the whole metadata topic."""
    applied: View
    """After what the broker has read of it."""
    pending: tuple[tuple[Sent, int], ...]
    """What it has not read, each with its age."""
    store: frozenset[Stored]
    runs: tuple[Run, ...]
    on_the_way: tuple[Message, ...]
    log_start: int
    repeats: int
    uploads: tuple[Stored, ...]
    """Those that leaders have not finished."""
    strays: int
    second: View | None = None
    """What a second broker has read of the topic, of which others are the leaders."""
    second_pending: tuple[tuple[Sent, int], ...] = ()
    reader: Reading = Reading(0, ())
    has_raced: bool = False
    """Whether a batch came beside an upload of which its look could know nothing."""
    topic: Topic = Topic()

    def with_run(self, index: int, **changes: Any) -> State:
        """The state with one run changed."""
        runs = list(self.runs)
        runs[index] = runs[index]._replace(**changes)
        return self._replace(runs=tuple(runs))

    def written(self, events: Iterable[Sent], age: int = 0) -> State:
        """The state after these events came to the topic."""
        view, came = self.view, tuple((event, age) for event in events)
        for event, _ in came:
            view = after(view, event, age)
        if self.topic.is_unread:
            return self._replace(view=view)
        second_pending = self.second_pending if self.second is None else self.second_pending + came
        return self._replace(
            view=view, pending=self.pending + came, second_pending=second_pending
        )


def first_state(scenario: Scenario) -> State:
    """All that brokers uploaded is live, and nothing has happened."""
    log, view = scenario.log, NOTHING

    def uploads(label: str, bounds: Iterable[Bounds]) -> tuple[Stored, ...]:
        return tuple(
            upload_of(f"{label}{start}", log.records, (start, end), log.lineage)
            for start, end in bounds
        )

    live, dead = uploads("U", scenario.segments), uploads("X", scenario.dead_uploads)
    begun = uploads("W", scenario.begun_uploads)
    dead += begun + uploads("late", scenario.late_starts)
    diverged = tuple(_diverged(one, scenario.diverged_epoch) for one in scenario.diverged)
    for segment in (*live, *diverged, *dead):
        is_young = segment in dead and not (segment in begun and scenario.are_given_up)
        view = after(view, started_of(segment), 0 if is_young else OLD)
        if segment not in dead:
            view = after(view, given_to(segment, SegmentState.COPY_FINISHED), OLD)
        if segment in diverged and scenario.is_clock_ahead:
            view = after(view, given_to(segment, SegmentState.DELETE_STARTED), -OLD)
    given_up = diverged if scenario.gives_up else ()
    return State(
        row=row_of(0, live, tuple((segment, OLD) for segment in given_up)),
        view=view,
        applied=view,
        pending=(),
        store=frozenset((*live, *diverged)),
        runs=tuple(Run(name, scenario.plans) for name in scenario.runs),
        on_the_way=(),
        log_start=0,
        repeats=scenario.repeats,
        uploads=begun + uploads("W", scenario.uploads),
        strays=scenario.strays,
        second=view if scenario.has_second_broker else None,
        topic=Topic(may_be_lost=scenario.loss is not Loss.NONE),
    )


Next = tuple[Happening, State]


def _diverged(bounds: Bounds, epoch: int) -> Stored:
    """What a deposed leader uploaded: other records at the same offsets."""
    start, end = bounds
    records = [Record(offset, "a", 100 + offset) for offset in range(start, end + 1)]
    return upload_of(f"D{start}", records, bounds, epochs((epoch, start)))
