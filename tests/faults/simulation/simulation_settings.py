"""The environment of one seed: its logs, fault profile, settings, store and table."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import pytest

from tests.compaction.hash_keys import HASH_KEY
from tests.faults.simulation.environment_broker import History, history
from tests.faults.simulation.environment_bucket import BucketObjects, Upload, store_of
from tests.faults.simulation.environment_checks import Violation, Watch, is_forgotten
from tests.faults.simulation.environment_signs import Heart, Signs, SignStore
from tests.faults.simulation.environment_store import Objects
from tests.faults.simulation.environment_table import Buckets, TableLog, VirtualTable
from tests.faults.simulation.inline_executor import InlineExecutor
from tests.faults.simulation.simulation_scheduler import DAY_MS, Actor, FaultProfile, Scheduler
from tests.jobs.tiers import key_of
from tests.storage.call_scripts import Call, Rule, Script
from tests.storage.scripted_catalog import ScriptedCatalog
from tierfold.compaction.commits.holders import IfHeld
from tierfold.compaction.model.outcomes import Outcome
from tierfold.compaction.model.segments import PartitionKey, PartitionState
from tierfold.compaction.planning.waves import WaveLimit
from tierfold.jobs.context import sign_of_life
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.engines import task_assignment
from tierfold.jobs.pipeline import (
    check_and_commit,
    claiming,
    held_partitions,
    pace,
    run_loop,
    run_records,
    survey,
)
from tierfold.jobs.settings.resolution import Settings, resolve
from tierfold.jobs.verbs import (
    logs_beside_tier,
    restore_check,
    upload,
    vacuum,
    vacuum_survey,
    waiting,
)
from tierfold.storage.catalog import catalog
from tierfold.storage.catalog.delta_tables import TableLayout
from tierfold.storage.catalog.sign_folder import SignFolder
from tierfold.storage.kafka import kafka_uuid
from tierfold.storage.key_indexes.index_folder import FOLDER
from tierfold.storage.tiers import s3_objects, s3_uploads
from tierfold.storage.tiers.asked_classes import AskedClasses
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER, LocalTieredStorage
from tierfold.storage.tiers.locations import Location
from tierfold.storage.tiers.remote_tier import CATALOG_FOLDER
from tierfold.storage.tiers.request_counts import Requests

FAULT_PROFILES: Final = (
    FaultProfile(faults=0.0, switches=0.5, leaps=0.0),
    FaultProfile(faults=0.004, switches=0.05, leaps=0.005),
    FaultProfile(faults=0.01, switches=0.3, leaps=0.002),
    FaultProfile(faults=0.02, switches=0.1, leaps=0.01),
    FaultProfile(faults=0.02, switches=0.6, leaps=0.01),
    FaultProfile(faults=0.04, switches=0.6, leaps=0.02),
)


class StoreKind(StrEnum):
    """What kind of store has the tier."""

    AWS = "S3"
    COMPATIBLE = "an S3-compatible store whose checksums of small objects are not trusted"
    FOLDER = "a folder"


BOUND: Final = 0.4
"""The probability that brokers serve a tier in a bucket: none of their uploads may be aborted."""

SMALL_WAVES: Final = 0.5
"""The probability that a wave has one partition."""

IF_HELD_WEIGHTS: Final = (6, 1, 4)
"""How often a run leaves partitions of live runs alone, waits for them, or takes them over."""

BUCKET_BYTES: Final = 256
"""Log bytes per key bucket; so few that even a small log has several buckets."""

_BUG: Final = re.compile(r"report (it|this bug)")
"""What the product prints when it takes an error for its own bug."""


@dataclass(slots=True, kw_only=True)
class Environment:
    """The state that all actors of a scenario share."""

    scheduler: Scheduler
    settings: Settings
    histories: dict[PartitionKey, History]
    kind: StoreKind = StoreKind.FOLDER
    is_bound: bool = False
    """Brokers serve the tier: `vacuum` deletes only what runs wrote."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """How often claims, commits, verbs and rows ended in each way."""
    due: int = 0
    """How many partitions the last survey found due."""
    refused: dict[PartitionKey, str] = field(default_factory=dict)
    """Why the last run, or a vacuum since, refused a partition."""
    forgets: bool = False
    """A person runs `tierfold forget` on partitions whose log was truncated."""
    stages_ended_ms: dict[str, int] = field(default_factory=dict)
    """When the last stage of each run ended; none of its commits may have an earlier time."""
    commit_times_ms: dict[PartitionKey, list[int]] = field(default_factory=dict)
    """The commit times of each row, in order."""
    objects: Objects = field(init=False)
    indexes: Objects = field(init=False)
    """The key indexes; their store fails like the tier's."""
    table: TableLog = field(init=False)
    watch: Watch = field(init=False)
    sign_rng: Random
    """Draws what goes wrong with signs of life, and which runs insist; no other draw uses it."""
    has_small_waves: bool
    """A wave has one partition; else both may share one."""
    signs: Signs = field(init=False)

    def __post_init__(self) -> None:
        self.signs = Signs(
            rng=self.sign_rng,
            now_ms=lambda: self.scheduler.now_ms,
            owners=lambda: sorted(row.owner_run for row in self.watch.rows.values()),
            is_calm=lambda: self.scheduler.is_calm or not self.scheduler.fault_profile.faults,
            happened=self.outcomes,
        )
        shared: dict[str, Any] = {
            "now_ms": lambda: self.scheduler.now_ms,
            "removed": self._check_deletion,
            "deletes": lambda key: self._checked(lambda: self.watch.deletes(key)),
        }
        self.indexes = Objects(
            now_ms=shared["now_ms"],
            removed=lambda _: None,
            deletes=lambda _: None,
            folders=frozenset({FOLDER}),
        )
        if self.kind is StoreKind.FOLDER:
            self.objects = Objects(**shared, folders=frozenset({TIER_FOLDER}))
        else:
            # A bucket has no empty folders, but the catalog's folder shows that it is a tier.
            self.objects = BucketObjects(
                **shared,
                folders=frozenset({CATALOG_FOLDER}),
                is_aws=self.kind is StoreKind.AWS,
                aborts=self._check_abort,
                happened=lambda what: self.outcomes.update([what]),
            )
        self.table = TableLog(changed=self._check_version, now_ms=lambda: self.scheduler.now_ms)
        self.watch = Watch(objects=self.objects, histories=self.histories, seen=self._seen)

    def run_context(self, actor: Actor, run: str) -> RunContext:
        """Return the context of a run by this actor."""

        def open_table(uri: str, layout: TableLayout) -> Any:
            return VirtualTable(actor, self.table, uri, layout)

        alive = partial(self._beats, run)
        answers = Script(
            Rule(step="claim", before=alive, after=self._record_claims),
            Rule(step="exchange", before=alive, after=self._record_exchange),
            Rule(step="commit", before=alive),
            Rule(step="commit", before=partial(self._check_times, run), after=self._record_commits),
        )
        (if_held,) = (
            (IfHeld.SKIP,)
            if self.scheduler.is_calm
            else self.sign_rng.choices(tuple(IfHeld), IF_HELD_WEIGHTS)
        )
        tier = LocalTieredStorage(store_of(actor, self.objects))
        return RunContext(
            hash_key=HASH_KEY,
            requests_before=Requests(),
            tier_uri="/virtual",
            location=Location("file", "", "/virtual"),
            tier=tier,
            classes=AskedClasses(tier.store, "file"),
            catalog_uri="virtual:catalog",
            catalog=ScriptedCatalog("virtual:catalog", answers, open_table),
            signs=SignFolder(store=SignStore(actor, self.signs)),
            if_held=if_held,
            now_ms=self.scheduler.now_ms,
            begun_ms=self.scheduler.now_ms,
            clock=lambda: self.scheduler.now_ms,
            uses_key_indexes=True,
            run=run,
        )

    def happened(self, who: str, how: str, detail: str) -> None:
        """Record how a verb ended; a bug that the product reports is a violation."""
        self.scheduler.note(f"{who}: {how}: {detail}")
        self.outcomes[how] += 1
        if _BUG.search(detail):
            self.fail(f"{who} {how}: {detail}")

    def _beats(self, run: str, _: Call) -> None:
        self.signs.beat(run)

    def _record_claims(self, call: Call) -> None:
        for key, claim in call.result.items():
            self._record("claim", key, claim.outcome, claim.row.commit_id)

    def _record_exchange(self, call: Call) -> None:
        claims, released = call.result
        for key, claim in claims.items():
            self._record("claim of a later wave", key, claim.outcome, claim.row.commit_id)
        for proposal in call.arguments[1]:
            outcome = released[proposal.key]
            self._record("release by a claim", proposal.key, outcome, proposal.commit_id)

    def _check_times(self, run: str, call: Call) -> None:
        ended_ms = self.stages_ended_ms.get(run, 0)
        for proposal in call.arguments[0]:
            if proposal.at_ms < ended_ms:
                self.fail(
                    f"a commit has the time {proposal.at_ms}, but its stages ended at {ended_ms}"
                )

    def _record_commits(self, call: Call) -> None:
        for proposal in call.arguments[0]:
            outcome = call.result[proposal.key]
            self._record("commit", proposal.key, outcome, proposal.commit_id)

    def _record(self, what: str, key: PartitionKey, outcome: Outcome, commit_id: str) -> None:
        """Count the outcome of a claim or commit; fail if the catalog reports a wrong one."""
        self.outcomes[f"{what}: {type(outcome).__name__}"] += 1
        violation = self.watch.answer_violation(key, outcome, commit_id)
        if violation:
            self.fail(violation)

    def fail(self, violation: str) -> NoReturn:
        """End the scenario with this violation."""
        self.scheduler.note(f"VIOLATION: {violation}")
        self.scheduler.fail(Violation(violation))

    def _check_version(self, written: Buckets) -> None:
        self._checked(lambda: self.watch.version(written))

    def _check_deletion(self, key: str) -> None:
        self._checked(lambda: self.watch.removed(key, self.scheduler.now_ms))

    def _check_abort(self, upload: Upload, by: Actor) -> None:
        self._checked(lambda: self.watch.aborts(upload, by, is_bound=self.is_bound))

    def _checked(self, check: Callable[[], None]) -> None:
        try:
            check()
        except Violation as error:
            self.fail(str(error))

    def _seen(self, before: PartitionState | None, after: PartitionState) -> None:
        """Count how the row changed."""
        if before is None or after.epoch > before.epoch:
            took = before is not None and before.owner_run != ""
            who = after.owner_run.partition(".")[0].rstrip("0123456789")
            self.outcomes[f"takeover by a {who}" if took else f"claim by a {who}"] += 1
        elif is_forgotten(before, after):
            self.outcomes["forgotten"] += 1
        elif after.log_start_offset > before.log_start_offset:
            self.outcomes["log start moved"] += 1
        elif {entry.segment for entry in before.retired} & set(after.segments):
            self.outcomes["restored"] += 1
        elif len(after.retired) < len(before.retired):
            self.outcomes["deletion ended"] += 1
        elif len(after.retired) > len(before.retired):
            self.outcomes["swap"] += 1
        elif before.whole_retired != after.whole_retired:
            self.outcomes["deletion started"] += 1
        self.commit_times_ms.setdefault(after.key, []).append(after.committed_at_ms)
        self.outcomes["release"] += before is not None and before.owner_run != after.owner_run == ""


def drawn_environment(seed: int) -> Environment:
    """Draw the environment of a seed; no actor has started yet."""
    rng = Random(seed)
    scheduler = Scheduler(rng, rng.choice(FAULT_PROFILES))
    keys = [key_of("orders"), key_of("payments")][: rng.choice((1, 1, 2))]
    histories = {key: history(rng, key, rng.randint(2, 5)) for key in keys}
    # Its own RNG: a seed whose tier is a folder plays as it did before buckets were simulated.
    store_rng = Random(f"store of {seed}")
    (kind,) = store_rng.choices(tuple(StoreKind), (1, 1, 2))
    is_bound = kind is not StoreKind.FOLDER and store_rng.random() < BOUND
    binding = f"tier.binding={'bound' if is_bound else 'detached'}"
    return Environment(
        scheduler=scheduler,
        settings=_settings(binding, *_drawn(rng)),
        histories=histories,
        kind=kind,
        is_bound=is_bound,
        sign_rng=Random(f"signs of {seed}"),
        has_small_waves=Random(f"waves of {seed}").random() < SMALL_WAVES,
    )


def drawn_for_uploads(seed: int) -> Environment:
    """Draw the environment of a seed in which no broker uploads anything."""
    environment = drawn_environment(seed)
    for log in environment.histories.values():
        log.to_come.clear()
    environment.is_bound = False
    environment.settings = _settings("tier.binding=detached", "chunk.bytes=250")
    return environment


def _drawn(rng: Random) -> tuple[str, ...]:
    """Draw the settings that matter for a small log."""
    drawn = {
        "chunk.bytes": rng.choice(("1", "250", "100000")),
        "segment.bytes": rng.choice(("1", "300", "2000")),
        "delete.retention.ms": rng.choice(("60000", "7200000", "86400000")),
    }
    if rng.random() < 0.3:
        drawn["cleanup.policy"] = "compact,delete"
        drawn["retention.ms"] = rng.choice(("-1", str(3 * DAY_MS)))
        drawn["retention.bytes"] = rng.choice(("-1", "500"))
    return tuple(f"{name}={value}" for name, value in drawn.items())


@cache
def _settings(*drawn: str) -> Settings:
    always = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0")
    return resolve((*always, *drawn))


@contextmanager
def deterministic(environment: Environment) -> Iterator[None]:
    """Draw the product's ids from the seed, its time from the scheduler; use one thread."""

    def drawn_uuid() -> uuid.UUID:
        return uuid.UUID(int=environment.scheduler.rng.getrandbits(128), version=4)

    with pytest.MonkeyPatch.context() as patch:
        _patch_waves(patch, environment)
        # Only in the product: numba also calls `uuid4`, to name the files of its cache.
        for module in (catalog, kafka_uuid):
            patch.setattr(module, "uuid", SimpleNamespace(uuid4=drawn_uuid, UUID=uuid.UUID))
        for module in (s3_objects, s3_uploads):
            patch.setattr(module, "uuid4", drawn_uuid)
        patch.setattr(s3_objects, "pause", environment.scheduler.pause)
        patch.setattr(s3_uploads, "ThreadPoolExecutor", InlineExecutor)
        for module in (survey, claiming, check_and_commit, vacuum, vacuum_survey, logs_beside_tier):
            patch.setattr(module, "READERS", 1)
        patch.setattr(upload, "UPLOADERS", 1)
        patch.setattr(restore_check, "CHECKERS", 1)
        patch.setattr(task_assignment, "THREADS_MAX", 1)
        patch.setattr(task_assignment, "BUCKET_BYTES", BUCKET_BYTES)
        patch.setattr(held_partitions, "pause", environment.scheduler.pause)
        patch.setattr(waiting, "pause", environment.scheduler.pause)
        patch.setattr(
            sign_of_life,
            "Thread",
            lambda target, **_: Heart(signs=environment.signs, target=target),
        )
        # The `runs` table is not part of the protocol.
        patch.setattr(run_records, "record_run", lambda *_: None)
        yield


def _patch_waves(patch: pytest.MonkeyPatch, environment: Environment) -> None:
    for module in (run_loop, pace):
        patch.setattr(module, "now_ms", lambda: environment.scheduler.now_ms)
    patch.setattr(pace, "elapsed_s", lambda: environment.scheduler.now_ms / 1000)
    if environment.has_small_waves:
        one = WaveLimit(partitions=1, work=1)
        patch.setattr(run_loop, "FIRST_WAVE_OF_BYTES", one)
        patch.setattr(vacuum, "FIRST_WAVE_OF_OBJECTS", one)
