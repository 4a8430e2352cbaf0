"""The environment of a served seed: a tier, the brokers that serve it, the row, and who acts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, NoReturn

from tests.compaction.builders import CLUSTER, KEY
from tests.compaction.hash_keys import FINGERPRINT
from tests.faults.broker_model.consumers import Wrong
from tests.faults.broker_model.metadata_cache import FINISHED, GONE, LISTED, STARTED
from tests.faults.broker_model.modelled_cluster import Cluster, Lost
from tests.faults.broker_model.served_log import ServedLog, Value
from tests.faults.broker_model.tier_contents import TierContents
from tests.faults.simulation.environment_checks import Violation
from tests.faults.simulation.served_table import ServedTable, failure
from tests.faults.simulation.simulation_scheduler import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    READ_FAULTS,
    SECOND_MS,
    WRITE_FAULTS,
    Actor,
    Call,
    FaultProfile,
    Scheduler,
)
from tierfold.compaction.brokers.events import Event, SegmentAdded
from tierfold.compaction.model.rules import CompactionStrategy, Rules
from tierfold.compaction.model.segment_ids import (
    Maker,
    SegmentMark,
    id_text,
    is_restored_id,
    maker_of,
    marked,
)
from tierfold.compaction.model.segments import PartitionState
from tierfold.compaction.publishing.look import PublishingLimits

RESTORES: Final = 0.4
"""How often a person restores."""

LOSSES: Final = 3
"""Which of seven scenarios loses its metadata topic."""

DELAYS: Final = 0.1
"""How often a send, or a broker's, stays on its way for a while, as when a machine sleeps."""

STOPS: Final = 0.4
"""How often brokers stop, and come back."""

PROFILES: Final = (
    FaultProfile(faults=0.0, switches=0.5, leaps=0.0),
    FaultProfile(faults=0.01, switches=0.3, leaps=0.005),
    FaultProfile(faults=0.03, switches=0.5, leaps=0.01),
    FaultProfile(faults=0.06, switches=0.5, leaps=0.03),
)


@dataclass(slots=True, kw_only=True)
class ServedEnvironment:
    """The state that all actors of a served scenario share."""

    scheduler: Scheduler
    limits: PublishingLimits
    delete_retention_ms: int
    retention_ms: int
    """The topic's; −1: nothing expires by its age."""
    own_retention_ms: int
    """What runs have for the topic, beside that of brokers; −1: no run moves the log start."""
    margin: int
    """`tail.margin.segments`."""
    has_stops: bool
    """Whether brokers stop, and come back."""
    orphan_age_ms: int
    has_restores: bool
    """Whether a person restores earlier states."""
    restored_ms: int = 0
    """When all brokers had applied the last restore that was sent as one batch, as versions ask."""
    has_loss: bool = False
    """Whether the metadata topic is lost, once."""
    is_detached: bool = False
    """The tier is compacted before its cluster is given: nothing is published yet, and tombstones
    go at once."""
    caught_up_ms: int = 0
    """When what was compacted before the cluster was given had been published."""
    strays: set[str] = field(default_factory=set)
    """Uploads of a deposed leader whose records were truncated."""
    outcomes: Counter[str] = field(default_factory=Counter)
    excused: set[int] = field(default_factory=set)
    """Offsets that an upload may have taken from consumers; the next look mends them."""
    late: set[str] = field(default_factory=set)
    """Uploads that were finished over offsets of a replacement."""
    gone: set[str] = field(default_factory=set)
    """Segments of which a run said that they are gone."""
    rows: list[PartitionState] = field(default_factory=list)
    """All rows that were ever written, the newest one last."""
    deleted_by_runs: set[str] = field(default_factory=set)
    """Segments of which a run has deleted an object."""
    is_by_run: bool = False
    """Whether a run, not a broker, deletes the next object."""
    cluster: Cluster = field(init=False)
    tier: TierContents = field(init=False)
    table: ServedTable = field(init=False)

    @property
    def rng(self) -> Random:
        """It decides everything."""
        return self.scheduler.rng

    @property
    def now_ms(self) -> int:
        """The time of all clocks."""
        return self.scheduler.now_ms

    @property
    def is_by_version(self) -> bool:
        """Whether versions decide which record of a key counts."""
        return self.rules.compaction_strategy is not CompactionStrategy.OFFSET

    @property
    def is_rebuild_due(self) -> bool:
        """Whether something is to be named again."""
        return self.cluster.is_lost or any(self.unnamed_uploads())

    def unnamed_uploads(self) -> Iterator[str]:
        """The whole uploads that a topic which was lost does not name, and that may be live."""
        named_ids = self.table.row.retired_ids | self.cluster.whole.named
        for segment_id in self.tier.present() if self.cluster.metadata_start else ():
            is_upload = maker_of(segment_id, FINGERPRINT) is Maker.BROKER
            if is_upload and segment_id not in named_ids and self.tier.is_whole(segment_id):
                yield segment_id

    @property
    def may_restart(self) -> bool:
        """Whether brokers may restart and leaders move: in the two safe orders of SWAP 8."""
        return not (self.cluster.is_copying and self.is_rebuild_due)

    @property
    def rules(self) -> Rules:
        """The topic's settings."""
        strategy = self.cluster.log.strategy
        return Rules(
            delete_retention_ms=self.delete_retention_ms,
            compaction_strategy=strategy,
            compaction_strategy_header="v" if strategy is CompactionStrategy.HEADER else "",
        )

    def act(
        self, actor: Actor, what: str, effect: Callable[[], Any], *, is_read: bool = False
    ) -> Any:
        """Do something in one atomic step, after brokers have caught up."""

        def done() -> Any:
            self.cluster.catch_up()
            return effect()

        return actor.do(
            Call(
                what=what,
                effect=done,
                faults=READ_FAULTS if is_read else WRITE_FAULTS,
                error=failure,
                weight=1 if is_read else 2,
            )
        )

    def send(self, actor: Actor, events: tuple[Event, ...], seen: int) -> None:
        """Send a batch of events to the metadata topic; it may arrive late, twice or never."""
        sent_ms = self.now_ms
        words = " + ".join(f"{_word(event)}({event.segment_id[:6]})" for event in events)

        def landed() -> None:
            self.cluster.ensure_young(sent_ms)
            for event in events:
                if actor.name.startswith("broker"):
                    self._note_late(event)
                else:
                    self._check_event(event)
            if self.is_by_version and any(is_restored_id(one.segment_id) for one in events):
                self.restored_ms = self.now_ms + self.cluster.lag_max_ms
            self.cluster.send(events, sent_ms=sent_ms, by=actor.name, seen=seen)

        if self.rng.random() < DELAYS and not self.scheduler.is_calm:
            self.scheduler.count("send delayed")
            actor.sleep(self.rng.choice((10 * SECOND_MS, 5 * MINUTE_MS, 25 * MINUTE_MS)))
        self.act(actor, f"send {words}", landed)

    def new_id(self, *, is_own: bool, is_restored: bool = False) -> str:
        """Draw a segment id, as a run makes it, of a restore or not, or as a broker does."""
        drawn = bytearray(self.rng.randbytes(16))
        drawn[0] &= 0x7F
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        text = id_text(bytes(drawn))
        return marked(text, SegmentMark(FINGERPRINT, is_restored=is_restored)) if is_own else text

    def fail(self, violation: str) -> NoReturn:
        """End the scenario with this violation."""
        self.scheduler.note(f"VIOLATION: {violation}")
        self.scheduler.fail(Violation(violation))

    def happened(self, how: str) -> None:
        """Count and note how something ended."""
        self.scheduler.note(how)
        self.outcomes[how.partition(":")[0]] += 1

    def lost(self, found: Lost) -> None:
        """Judge an event that took offsets from consumers."""
        if self.cluster.brokers[found.broker].lacks:
            self.outcomes["offsets lost with the metadata"] += 1
            return
        sent = found.sent
        if sent.by.startswith("rebuild") and not self.cluster.lost_after_batch(found):
            # Two live segments begin alike in a leader epoch: the second one is found again next.
            self.outcomes["offsets lost within a rebuild's batch"] += 1
            self.excused.update(found.offsets)
            return
        raced = [
            offset
            for one in self.cluster.sent[sent.seen : sent.batch.start]
            if one.is_by_broker and not isinstance(one.event, SegmentAdded)
            for content in [self.tier.contents[one.event.segment_id]]
            if one.event.state is FINISHED
            for offset in range(content.start, content.end + 1)
        ]
        of_batch = {
            offset
            for place in sent.batch
            for content in [self.tier.contents[self.cluster.sent[place].event.segment_id]]
            for offset in range(content.start, content.end + 1)
        }
        if sent.is_by_broker or of_batch.intersection(raced):
            self.outcomes["offsets lost beside an upload"] += 1
            self.excused.update(found.offsets)
            return
        self.fail(
            f"broker {found.broker}: offsets {found.offsets} are out of range after"
            f" {_word(sent.event)} of {sent.event.segment_id} by {sent.by}"
        )

    def removed(self, segment_id: str) -> None:
        """Check a segment before one of its objects is deleted."""
        if not self.is_by_run:
            return
        self.deleted_by_runs.add(segment_id)
        if segment_id in self.table.row.live_ids:
            self.fail(f"an object of {segment_id} is deleted, and it is live")
        caches = {f"broker {number}": one.cache for number, one in self.cluster.ready.items()}
        for who, cache in {"the topic": self.cluster.whole, **caches}.items():
            known = cache.segments.get(segment_id)
            if known is not None and self.cluster.metadata_start:
                # Memory may say so of what was lost, below the log start, where no one reads.
                known = known if known.added.end_offset >= self.cluster.log.log_start else None
            if known is not None and known.state in (STARTED, FINISHED):
                what = f"{who} has it in {known.state.name}"
                self.fail(f"an object of {segment_id} is deleted, and {what}")
        listed_ms = [
            one.timestamp_ms
            for one in self.cluster.sent
            if one.event.segment_id == segment_id
            and not isinstance(one.event, SegmentAdded)
            and one.event.state is LISTED
        ]
        # The period begins with the last event; one that came late may have an earlier timestamp.
        grace_ms = self.limits.grace_ms - self.cluster.refuses_older_ms
        if listed_ms and self.now_ms - listed_ms[0] < grace_ms:
            self.fail(f"an object of {segment_id} is deleted too soon after it was listed")

    def row_changed(self, after: PartitionState) -> None:
        """Check a new row: what is live is there, unless brokers deleted it."""
        self.rows.append(after)
        self.cluster.is_lost &= not (after.cluster and after.cluster.metadata_start)
        for segment in after.segments:
            is_over = segment.end_offset < self.cluster.log.log_start
            if not is_over and not self.tier.is_whole(segment.segment_id):
                self.fail(f"live segment {segment.segment_id} lacks an object")

    def late_with(self, value: Value) -> Iterator[str]:
        """The uploads with a value that were finished over a replacement."""
        for segment_id in self.late:
            if any(record.value == value for record in self.tier.contents[segment_id].records):
                yield segment_id

    def wrong(self, number: int, found: Wrong) -> None:
        """Judge what consumers see wrongly through a broker."""
        known = self.cluster.brokers[number].cache.segments
        late = () if found.value is None else self.late_with(found.value)
        if self.cluster.brokers[number].lacks:
            self.outcomes["values shown without lost metadata"] += 1
        elif any(one in known and known[one].state is FINISHED for one in late):
            self.outcomes["values shown by a late upload"] += 1
        elif any(self.caught_up_ms >= one.timestamp_ms for one in self.cluster.open_batch(number)):
            # Between two events of a group that was compacted before its cluster was given, a
            # source may show what a tombstone hid that is gone; a person has agreed to that.
            self.outcomes["values shown within a first batch"] += 1
        elif self.is_by_version and self._is_within_restore(number):
            self.outcomes["values shown within a restore's batch"] += 1
        else:
            self.fail(f"broker {number}, {found.what}")

    def _is_within_restore(self, number: int) -> bool:
        """Whether a broker has applied the first events of a restore's batch, not the last."""
        batch = self.cluster.open_batch(number)
        return any(is_restored_id(sent.event.segment_id) for sent in batch)

    def _note_late(self, event: Event) -> None:
        """Note an upload that is finished over offsets of a replacement.

        Its leader had been given up, or its batch was on its way: until the next look merges it,
        consumers see what it holds.
        """
        if isinstance(event, SegmentAdded) or event.state is not FINISHED:
            return
        content = self.tier.contents[event.segment_id]
        for segment in self.table.row.segments:
            is_ours = not segment.is_named_by_brokers
            if is_ours and segment.own_start_offset <= content.end and (
                content.start <= segment.end_offset
            ):
                self.late.add(event.segment_id)
                self.outcomes["uploads finished over a replacement"] += 1
                return

    def _check_event(self, event: Event) -> None:
        """Check what a run sends; brokers send what they like."""
        segment_id = event.segment_id
        if isinstance(event, SegmentAdded):
            content = self.tier.contents[segment_id]
            if (event.start_offset, event.end_offset) != (content.start, content.end):
                self.fail(f"{segment_id} is started with other offsets than it has")
            if event.leader_epochs != content.epochs:
                self.fail(f"{segment_id} is started with other leader epochs than it has")
            if segment_id in self.gone:
                self.fail(f"{segment_id} is started again after it was gone")
        elif event.state is GONE:
            self.gone.add(segment_id)
            if segment_id in self.tier.present():
                self.fail(f"{segment_id} is sent as gone, and an object of it is there")


def _word(event: Event) -> str:
    return "STARTED" if isinstance(event, SegmentAdded) else event.state.name


def drawn_served(seed: int) -> ServedEnvironment:
    """Draw the environment of a seed; no actor has started yet."""
    rng = Random(f"served {seed}")
    scheduler = Scheduler(rng, rng.choice(PROFILES))
    grace_ms = rng.choice((HOUR_MS, 6 * HOUR_MS))
    # Its own RNG: a seed by offset plays as it did before there were versions.
    (strategy,) = Random(f"strategy of {seed}").choices(tuple(CompactionStrategy), (2, 1, 1))
    environment = ServedEnvironment(
        scheduler=scheduler,
        limits=PublishingLimits(
            grace_ms=grace_ms,
            upload_wait_ms=HOUR_MS,
            batch_bytes_max=rng.choice((1_000_000, 1_000_000, 500)),
        ),
        delete_retention_ms=rng.choice((MINUTE_MS, 2 * HOUR_MS, DAY_MS)),
        retention_ms=rng.choice((-1, -1, -1, 2 * DAY_MS)),
        own_retention_ms=Random(f"retention of {seed}").choice((-1, -1, 6 * HOUR_MS, DAY_MS)),
        margin=rng.choice((0, 0, 1)),
        has_stops=Random(f"stops of {seed}").random() < STOPS,
        orphan_age_ms=DAY_MS,
        has_restores=Random(f"restores of {seed}").random() < RESTORES,
        has_loss=seed % 7 == LOSSES,
    )
    environment.tier = TierContents(removed=environment.removed)
    environment.cluster = Cluster(
        rng=rng,
        now_ms=lambda: scheduler.now_ms,
        log=ServedLog(
            rng=rng, strategy=strategy, delete_retention_ms=environment.delete_retention_ms
        ),
        tier=environment.tier,
        refuses_older_ms=grace_ms // 2,
        local_retention_ms=rng.choice((MINUTE_MS, HOUR_MS, DAY_MS)),
        deletes_listed=rng.random() < 0.7,
        lost=environment.lost,
        wrong=environment.wrong,
    )
    environment.cluster.log.local_ms = environment.cluster.local_retention_ms + HOUR_MS
    row = PartitionState(
        key=KEY,
        epoch=0,
        owner_run="",
        cleaner_offsets=(),
        log_start_offset=0,
        segments=(),
        lineage=(),
        served_by=(CLUSTER,),
    )
    environment.table = ServedTable(row=replace(row), changed=environment.row_changed)
    return environment
