"""The context of a run: the tier, its catalog, the clock, the run's name.

Only this module creates them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tierfold.compaction.brokers.cluster_configs import Configs
from tierfold.compaction.brokers.cluster_view import BrokerPartition, ClusterView
from tierfold.compaction.commits.holders import IfHeld
from tierfold.compaction.model.bindings import Detached, TierBinding, binding_of
from tierfold.compaction.model.hash_key import HashKey
from tierfold.compaction.model.rules import LONG_MAX
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.context.key_files import with_keys_of_environment
from tierfold.jobs.context.publishing_settings import Publishing, PublishingSettings
from tierfold.jobs.context.run_clocks import RunClocks
from tierfold.jobs.context.run_cluster import RunCluster
from tierfold.jobs.context.run_progress import RunProgress
from tierfold.jobs.context.segment_memory import SegmentMemory
from tierfold.jobs.context.stage_seconds import StageSeconds
from tierfold.jobs.context.stored_bytes import StoredBytes
from tierfold.jobs.context.tier_opener import TierOpener, WorkerOpener
from tierfold.storage.catalog.catalog import Catalog
from tierfold.storage.catalog.discovered_table import DiscoveredTable
from tierfold.storage.catalog.sign_folder import SignFolder, sign_folder
from tierfold.storage.clock import now_ms
from tierfold.storage.hash_keys import new_hash_key
from tierfold.storage.kafka.kafka_uuid import new_kafka_uuid
from tierfold.storage.tiers.asked_classes import AskedClasses
from tierfold.storage.tiers.layout_options import AS_FOUND, Layout, LayoutOptions
from tierfold.storage.tiers.locations import Location, location_of, open_store
from tierfold.storage.tiers.near_reads import NearReadCounter
from tierfold.storage.tiers.remote_tier import RemoteTier
from tierfold.storage.tiers.request_counts import RequestCounter, Requests
from tierfold.storage.tiers.store_options import ENVIRONMENT, StoreOptions
from tierfold.storage.tiers.tier_uris import catalog_place, open_tier, with_layout


def _not_set(_topic: str) -> int:
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The context of a verb."""

    tier_uri: str
    """The tier as the user named it."""
    location: Location
    """Where the tier is, in whatever folder a process works."""
    tier: RemoteTier
    catalog_uri: str
    """An absolute path, or the URI of a prefix in a bucket."""
    catalog: Catalog
    signs: SignFolder
    """The signs of life of the runs at work, beside the catalog."""
    now_ms: int
    """When the run began, or `--now`, or when its plan was made; all decisions are made for this
    time."""
    begun_ms: int
    """When the run began, by this machine's clock; epoch milliseconds."""
    clock: Callable[[], int]
    """Returns the time of a write in epoch milliseconds; `now_ms` at first."""
    run: str
    """This run's name: its start time and a part of a random id."""
    hash_key: HashKey
    """What the run's workers hash record keys with; each run draws its own."""
    requests_before: Requests
    """The requests that this process had made to the tier's store when the run began."""
    classes: AskedClasses = field(compare=False)
    """The storage classes of objects whose listing does not show them."""
    workers: RequestCounter = field(default_factory=RequestCounter, compare=False)
    """The requests of the run's other processes."""
    log_dirs: tuple[str, ...] = ()
    """Log directories of brokers, absolute; a machine that has one reads segments there."""
    near_reads: NearReadCounter = field(default_factory=NearReadCounter, compare=False)
    """What was read there in place of the tier, in all processes of the run."""
    seconds: StageSeconds = field(default_factory=StageSeconds, compare=False)
    """How long the run has spent in each stage."""
    stored: StoredBytes = field(default_factory=StoredBytes, compare=False)
    """What the partitions in scope took when they were listed."""
    progress: RunProgress = field(default_factory=RunProgress, compare=False)
    """How far the run is; its steps report to it."""
    tier_options: StoreOptions = ENVIRONMENT
    """The options with which a worker opens the tier's store."""
    layout_options: LayoutOptions = AS_FOUND
    """The tier's layout; a worker does not detect it again."""
    layout_words: tuple[str, ...] = ()
    """The arguments that describe the layout."""
    holes_are_holes: tuple[str, ...] = ()
    """Patterns of the partitions in which a person said that no segment is missing."""
    declared: TierBinding | None = None
    """Who serves the tier, as the user says (`tier.binding`); None: not set."""
    if_held: IfHeld = IfHeld.SKIP
    """What to do with partitions that a live run holds."""
    batch_bytes_max: Callable[[str], int] = field(default=_not_set, compare=False)
    """Topic → its `decompressed.batch.max.bytes`; 0: not set."""
    catalog_options: StoreOptions = ENVIRONMENT
    catalog_words: tuple[str, ...] = ()
    """The arguments that name the catalog; empty if it is in the tier."""
    clocks: RunClocks | None = None
    """What a verb that writes checks before it does; None: the verb only reads."""
    cluster: RunCluster | None = field(default=None, compare=False)
    """The cluster whose brokers the verb asks; None: none is named."""
    publishing: PublishingSettings | None = None
    """Whether the verb publishes to the cluster, and how; None: this verb never does."""
    memory: SegmentMemory | None = field(default=None, compare=False)
    """What earlier runs read of segments that no row names; None: nothing is remembered."""
    recalls: bool = False
    """Whether what is in `memory` need not be read: the survey sets it."""
    dates_ms: int | None = None
    """From when new delete horizons count, and of when its notes are; None: `now_ms`."""
    uses_key_indexes: bool = False
    """False if the tier is encrypted: a hash in plain text would confirm a guessed key."""

    @property
    def dated_ms(self) -> int:
        """The time that a run's notes bear."""
        return self.now_ms if self.dates_ms is None else self.dates_ms

    @property
    def has_moved(self) -> bool:
        """Whether the user says that the tier stands elsewhere than the catalog notes."""
        return self.declared is TierBinding.MOVED

    @property
    def publishing_state(self) -> Publishing:
        """What brokers learn of the run."""
        if self.cluster is not None:
            is_on = self.publishing is not None and self.publishing.is_on
            return Publishing.ON if is_on else Publishing.OFF
        is_detached = isinstance(binding_of(self.declared), Detached)
        return Publishing.NO_BROKERS if is_detached else Publishing.NOT_NAMED

    @property
    def cluster_view(self) -> ClusterView | None:
        """What the look at the cluster showed; None: the verb asks none, or has not looked yet."""
        return None if self.cluster is None else self.cluster.view

    def brokers_of(self, key: PartitionKey) -> BrokerPartition | None:
        """What brokers have of a partition by the newest look; None: it was not looked at."""
        return None if self.cluster_view is None else self.cluster_view.partitions.get(key)

    @property
    def metadata_configs(self) -> Configs:
        """The metadata topic's settings by the newest look; empty: there was none."""
        return {} if self.cluster_view is None else self.cluster_view.setup.metadata_configs

    @property
    def requests(self) -> Requests:
        """The requests of the run to the tier's store so far, without those to the catalog."""
        return self.tier.requests() - self.requests_before + self.workers.requests

    @property
    def scheme(self) -> str:
        """Where the tier is: `file`, `s3`, `az` or `gs`."""
        return self.location.scheme

    def place(self, key: PartitionKey) -> str:
        """Return the arguments of a verb that name this tier, its catalog and the partition."""
        return shlex.join((self.tier_uri, str(key), *self.catalog_words, *self.layout_words))

    @property
    def may_decrypt(self) -> bool:
        """Whether the run has a key, so that keys of records could reach a disk in plain text.

        Without a key, neither this process nor a worker can read an encrypted segment.
        """
        return bool(self.layout_options.key_files)

    def tier_opener(self) -> TierOpener:
        """Return what opens the tier in a worker."""
        return TierOpener(
            location=self.location, store=self.tier_options, layout=self.layout_options
        )

    def worker_opener(self) -> WorkerOpener:
        """Return what opens the tier and the key indexes in a worker."""
        place = location_of(self.catalog_uri, of="catalog")
        return WorkerOpener(
            tier=self.tier_opener(),
            catalog=place if self.uses_key_indexes else None,
            catalog_options=self.catalog_options.for_workers(place.scheme, os.environ),
            log_dirs=self.log_dirs,
        )


def run_context(
    tier_uri: str,
    catalog_uri: str | None = None,
    now: int | None = None,
    options: StoreOptions = ENVIRONMENT,
    layout: LayoutOptions = AS_FOUND,
    *,
    may_be_new: bool = False,
) -> RunContext:
    """Open the tier at `tier_uri` and its catalog; `now` (ms) replaces the clock.

    Raises BadSettings if there is no such tier, unless it `may_be_new`, or if `location_of` refuses
    a path or URI; UnreadableObject if the tier cannot be listed.
    """
    begun_ms = now_ms()
    time_ms = begun_ms if now is None else now
    place = location_of(tier_uri, of="tier")
    tier_options = options.for_workers(place.scheme, os.environ)
    requests_before = open_store(place, tier_options).requests()
    layout = with_layout(tier_uri, tier_options, layout)
    if layout.layout is Layout.AIVEN:
        layout = with_keys_of_environment(layout, os.environ)
    tier = open_tier(tier_uri, tier_options, layout, may_be_new=may_be_new)
    within = catalog_place(place, layout)
    catalog = within if catalog_uri is None else location_of(catalog_uri, of="catalog")
    if not may_be_new:
        tier.check()
    begun = datetime.fromtimestamp(begun_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    return RunContext(
        tier_uri=tier_uri,
        location=place,
        tier=tier,
        catalog_uri=str(catalog),
        catalog=Catalog(str(catalog), options),
        signs=sign_folder(catalog, options),
        now_ms=time_ms,
        begun_ms=begun_ms,
        clock=lambda: min(time_ms + now_ms() - begun_ms, LONG_MAX),
        hash_key=new_hash_key(),
        requests_before=requests_before,
        classes=AskedClasses(tier.store, place.scheme),
        tier_options=tier_options,
        layout_options=layout,
        catalog_options=options,
        memory=SegmentMemory(DiscoveredTable(str(catalog), options), time_ms),
        uses_key_indexes=not layout.key_files,
        run=f"{begun}-{new_kafka_uuid()[:8]}",
        catalog_words=() if catalog == within else ("--catalog", str(catalog)),
    )
