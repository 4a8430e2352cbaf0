"""The effective settings of one topic, named as Kafka's topic configs with underscores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

DAY_MS: Final = 86_400_000
AS_RETENTION: Final = -2
"""In a local retention: as the topic's whole one."""
LONG_MAX: Final = 2**63 - 1
"""Java's largest long: Kafka's way to write "never"."""
RECORD_BYTES_MAX: Final = 2**31 - 9
"""The largest array of bytes that Java allocates, so the largest record that Kafka reads."""


class CompactionStrategy(StrEnum):
    """Which record of a key stays (KIP-280 `compaction.strategy`); on a tie, the last one."""

    OFFSET = "offset"
    """The highest offset, as in Kafka."""
    TIMESTAMP = "timestamp"
    """The highest record timestamp."""
    HEADER = "header"
    """The highest version in the header that `compaction.strategy.header` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Effective settings of one topic; defaults are Kafka's (`LogConfig`, `CleanerConfig`)."""

    cleanup_policy: frozenset[str] = frozenset()
    """`compact`, `delete` or both; empty: not set, and the topic is left alone."""
    compaction_strategy: CompactionStrategy = CompactionStrategy.OFFSET
    compaction_strategy_header: str = ""
    """Name of the header that holds a record's version; empty: not set."""
    min_cleanable_dirty_ratio: Fraction = Fraction(1, 2)
    """A fraction, so that comparisons are exact."""
    min_compaction_lag_ms: int = 0
    """The minimum time for which a record stays uncleaned; 0: not checked."""
    max_compaction_lag_ms: int = LONG_MAX
    """The maximum time for which a record may stay uncleaned (KIP-354)."""
    delete_retention_ms: int = DAY_MS
    producer_id_expiration_ms: int = DAY_MS
    retention_ms: int = 7 * DAY_MS
    """If the policy includes `delete`: how long a segment is kept; -1: forever."""
    retention_bytes: int = -1
    """If the policy includes `delete`: the maximum size of the log; -1: not checked."""
    retention_written: frozenset[str] = frozenset()
    """Which of these two fields the user wrote for the topic itself, not for all of a broker."""
    local_retention_ms: int = AS_RETENTION
    """How long a broker keeps a segment on its disks; -1: forever, -2: as `retention_ms`."""
    local_retention_bytes: int = AS_RETENTION
    """How much of the log a broker keeps on its disks; -1: all, -2: as `retention_bytes`."""
    local_retention_compacted_only: bool = True
    """Whether a segment of a topic with the policy `compact` alone stays there until it is
    compacted, as the detailed design of KIP-1272 says (tierfold's own setting)."""
    remote_copy_lag_ms: int = 0
    """The age from which on a segment is uploaded; 0: at once, -1: as long as it is kept locally
    (KIP-1241)."""
    remote_copy_lag_bytes: int = -1
    """How much of the log lies behind a segment that is uploaded; 0 and -1 as above."""
    segment_ms: int = 7 * DAY_MS
    """The age at which a broker rolls its active segment."""
    segment_bytes: int = 2**30
    segment_index_bytes: int = 10 * 2**20
    index_interval_bytes: int = 4096
    chunk_bytes: int | None = None
    """The maximum of dirty bytes per commit, exceeded only by a single segment (tierfold's own
    setting); None: no limit."""
    compact_keyless_max: int | None = None
    """The maximum of records without a key that a commit drops (tierfold's own setting); None: no
    limit."""
    max_decompressed_message_bytes: int = RECORD_BYTES_MAX
    """The maximum size of a record that was compressed (Kafka 4.4)."""
    decompressed_batch_max_bytes: int | None = None
    """What a compressed batch may expand to in any case (tierfold's own setting); None: 128 MiB, or
    256 times its size if that is more."""
    tail_margin_segments: int = 1
    """How many of the newest segments that readers find a round leaves alone (tierfold's own
    setting); only if brokers are asked."""
    upload_wait_ms: int = 3_600_000
    """How old an upload that brokers began must be to be given up (tierfold's own setting)."""
    publish: bool = True
    """Whether the topic may be published where publishing is on (tierfold's own setting)."""
    min_rewrite_gain: Fraction = Fraction(0)
    """The share of a clean segment's bytes that a rewrite must save at least (tierfold's own
    setting)."""
    min_rewrite_bytes: int = 0
    """How many bytes a rewrite of a clean segment must save at least (tierfold's own setting)."""
    rewrite_young_objects: bool = False
    """Whether fees for deleting young objects hold no round back (tierfold's own setting)."""
    bloom_filter_fpp: Fraction = Fraction(1, 100)
    """How often the Bloom filter of a segment may claim a key that it lacks (KIP-1272)."""

    @property
    def is_compacted(self) -> bool:
        """Whether the policy names `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether the policy includes `delete`."""
        return "delete" in self.cleanup_policy

    @property
    def kept_locally_ms(self) -> int:
        """How long a broker keeps a segment on its disks; -1: forever."""
        own = self.local_retention_ms
        return self.retention_ms if own == AS_RETENTION else own

    @property
    def kept_locally_bytes(self) -> int:
        """How much of the log a broker keeps on its disks; -1: all."""
        own = self.local_retention_bytes
        return self.retention_bytes if own == AS_RETENTION else own

    @property
    def beside_brokers(self) -> Rules:
        """These settings with the retention that counts where brokers serve the topic.

        Only what the user wrote for the topic does: brokers keep everything by -1, and no default,
        nor a week from a copied server.properties, may delete there.
        """
        given = self.retention_written
        return replace(
            self,
            retention_ms=self.retention_ms if "retention_ms" in given else -1,
            retention_bytes=self.retention_bytes if "retention_bytes" in given else -1,
        )

    @property
    def limits_log(self) -> bool:
        """Whether any retention limits the log where brokers serve it."""
        own = self.beside_brokers
        return self.is_deleted and max(own.retention_ms, own.retention_bytes) >= 0


def outlasting(rules: Rules) -> tuple[str, ...]:
    """The fields that should be below `delete_retention_ms` and are not (KIP-280).

    A late record may stay that long in the active segment, or uncompacted. If the tombstone of its
    key goes earlier, the deleted key comes back. Under `offset` a late record supersedes the
    tombstone anyway.
    """
    if rules.compaction_strategy is CompactionStrategy.OFFSET:
        return ()
    waits = ("segment_ms", "max_compaction_lag_ms")
    return tuple(field for field in waits if getattr(rules, field) >= rules.delete_retention_ms)


class SettingViolation(NamedTuple):
    """Two settings that contradict each other; names are fields of `Rules`."""

    first: str
    says: str
    """How they conflict: "is below", "needs"."""
    second: str
    remedy: str


def setting_violations(rules: Rules) -> Iterator[SettingViolation]:
    """The settings that contradict each other."""
    # KIP-354, Kafka's `LogConfig.validateValues`.
    if rules.max_compaction_lag_ms < rules.min_compaction_lag_ms:
        remedy = "Raise the former or lower the latter."
        yield SettingViolation("max_compaction_lag_ms", "is below", "min_compaction_lag_ms", remedy)
    # KIP-280 would silently fall back to `offset`, although the user asked for something else.
    is_by_header = rules.compaction_strategy is CompactionStrategy.HEADER
    if is_by_header and not rules.compaction_strategy_header:
        remedy = "Name the header that holds a record's version."
        yield SettingViolation("compaction_strategy", "needs", "compaction_strategy_header", remedy)
