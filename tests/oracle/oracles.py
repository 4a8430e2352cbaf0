"""The cleaners of several versions of Kafka, side by side: who cleans what, how they differ.

Each pass of a comparison gives tierfold and every cleaner the same log. So a difference does not
grow from pass to pass, and there is one, in the last batch of a round that ends in mid-log. If no
record of it is left, Kafka before 4.4 keeps the batch without records; 4.4 and tierfold drop it
(KAFKA-20452, docs/decisions/0002). What later passes make of it, such as a marker that waits for an
emptied batch of its transaction, they make of the same log. If nothing else of the round is left
either, Kafka 4.4 leaves a segment of 0 bytes, and tierfold keeps that one batch as 4.3 does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from tests.oracle.comparators import equal_logs
from tests.oracle.kafka_jars import OLDEST
from tests.oracle.kafka_lab import Batch, KafkaLab, Option
from tierfold.compaction.model.kafka_versions import KAFKA_VERSIONS

VERSIONS_VARIABLE: Final = "TIERFOLD_ORACLE_VERSIONS"
BEFORE_KAFKA_20452: Final = frozenset({"4.3.0"})
"""The versions whose cleaner keeps the last batch of every round."""
_BOTH_OF: Final = 8
"""One of so many seeds is cleaned by all versions, the others by one each."""

Cleaned: TypeAlias = "Mapping[str, Cleaning]"
"""The result of each version's cleaner for one log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """The result of one cleaner for one log."""

    version: str
    log: Path
    batches: tuple[Batch, ...]
    """Those of `log`."""
    end: int
    """The first offset that was not cleaned; 0: nothing was dirty."""
    log_end: int
    """The first offset after the log, its high watermark."""
    producers: Mapping[int, Mapping[str, Any]]
    """The active producers, by id, with their `epoch` and `lastDataOffset`."""

    @property
    def ends_in_mid_log(self) -> bool:
        """Whether the round ends before the log does."""
        return 0 < self.end < self.log_end

    @property
    def round_end(self) -> Batch | None:
        """The batch that is here only because it ends a round in mid-log; None: there is none."""
        if self.version not in BEFORE_KAFKA_20452 or not self.ends_in_mid_log:
            return None
        (last,) = [b for b in self.batches if b["lastOffset"] + 1 == self.end] or [None]
        return None if last is None or last["records"] or self._is_last_of_producer(last) else last

    @property
    def expected(self) -> tuple[Batch, ...]:
        """The batches that Kafka since 4.4 leaves of the same log."""
        return tuple(batch for batch in self.batches if batch is not self.round_end)

    @property
    def leaves_nothing(self) -> bool:
        """Whether Kafka since 4.4 leaves no batch of a round that ends in mid-log."""
        inside = (batch for batch in self.expected if batch["lastOffset"] < self.end)
        return self.ends_in_mid_log and not any(inside)

    def _is_last_of_producer(self, batch: Batch) -> bool:
        """Whether the batch stays as the last one of an active producer."""
        producer = self.producers.get(batch["producerId"])
        if producer is None:
            return False
        if producer["lastDataOffset"] is not None:
            return bool(producer["lastDataOffset"] == batch["lastOffset"])
        return bool(batch["isControl"] and producer["epoch"] == batch["epoch"])


class Oracles:
    """One JVM per version; each starts with its first call."""

    def __init__(self, versions: Sequence[str] = KAFKA_VERSIONS) -> None:
        self.labs = {version: KafkaLab(version) for version in dict.fromkeys([OLDEST, *versions])}
        self._versions = tuple(versions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with ExitStack() as closed:
            for lab in self.labs.values():
                closed.callback(lab.close)

    @property
    def lab(self) -> KafkaLab:
        """The oldest version, which makes and reads all logs."""
        return self.labs[OLDEST]

    def versions_of(self, seed: int) -> tuple[str, ...]:
        """The versions that clean a seed's log: by turns, unless all are asked for."""
        if seed % _BOTH_OF == 0 or os.environ.get(VERSIONS_VARIABLE) == "all":
            return self._versions
        return (self._versions[seed % len(self._versions)],)

    def clean(self, seed: int, log: Path, out: Path, *, now_ms: int, **options: Option) -> Cleaned:
        """Clean copies of a log, each at `out / VERSION / NAME`, by the versions of a seed."""
        return {
            version: self._cleaned(version, log, out / version / log.name, now_ms, options)
            for version in self.versions_of(seed)
        }

    def _cleaned(
        self, version: str, log: Path, out: Path, now_ms: int, options: Mapping[str, Option]
    ) -> Cleaning:
        done = self.labs[version].clean(log, out, now_ms=now_ms, **options)
        return Cleaning(
            version=version,
            log=out,
            batches=tuple(self.lab.batches(out)),
            end=done["endOffset"],
            log_end=done["logEndOffset"],
            producers={producer["producerId"]: producer for producer in done["producers"]},
        )


def newest(cleaned: Cleaned) -> Cleaning:
    """The result of the newest version that cleaned the log."""
    return cleaned[max(cleaned, key=lambda version: [int(n) for n in version.split(".")])]


def unequal_to_kafka(
    cleaned: Cleaned, found: Sequence[Batch], source: Sequence[Batch]
) -> list[str]:
    """The differences to what each version's cleaner left of the same log, `source`; empty: none.

    `found` are tierfold's batches, as for `comparators.equal_logs`. Kafka before 4.4 must have left
    the one batch more that the module describes, and tierfold the one batch where nothing is left.
    """
    return [
        f"Kafka {version}: {difference}"
        for version, cleaning in cleaned.items()
        for difference in _unequal(cleaning, found, source)
    ]


def _unequal(
    cleaning: Cleaning, found: Sequence[Batch], source: Sequence[Batch]
) -> list[str]:
    if not cleaning.leaves_nothing:
        return equal_logs(cleaning.expected, found, source)
    if cleaning.round_end is not None:
        return equal_logs(cleaning.batches, found, source)
    inside = [batch for batch in found if batch["lastOffset"] < cleaning.end]
    last = [batch for batch in source if batch["lastOffset"] < cleaning.end][-1]
    alone = [(last["baseOffset"], last["lastOffset"], 0, last["producerId"])]
    fields = ("baseOffset", "lastOffset", "count", "producerId")
    left = [tuple(batch[name] for name in fields) for batch in inside]
    wrong = [f"{left} are left, expected {alone}"] if left != alone else []
    return wrong + equal_logs(cleaning.expected, found[len(inside) :], source)
