"""A short model of SEMANTICS 3, a dictionary by key, for `test_strategies_modelled`."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.pictures.batch_words import VERSION_HEADER
from tierfold.compaction.model.rules import CompactionStrategy

Rank: TypeAlias = tuple[int, ...]
"""The highest rank wins; the offset comes last, so that no two ranks are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """A record and its batch."""

    offset: int
    batch: int
    """The batch's base offset."""
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()

    @property
    def version(self) -> bytes | str | None:
        """The value of the last version header, or the text `absent`."""
        named = [value for name, value in self.headers if name == VERSION_HEADER.encode()]
        return named[-1] if named else "absent"

    def rank(self, strategy: CompactionStrategy) -> Rank:
        """The rank by which records of a key are compared."""
        if strategy is CompactionStrategy.OFFSET:
            return (self.offset,)
        if strategy is CompactionStrategy.TIMESTAMP:
            return (self.timestamp_ms, self.offset)
        if isinstance(self.version, bytes) and len(self.version) == 8:
            return (1, struct.unpack(">q", self.version)[0], self.offset)
        return (0, 0, self.offset)

    @property
    def is_malformed(self) -> bool:
        """Whether it has a version header without a valid version."""
        return self.version != "absent" and self.rank(CompactionStrategy.HEADER)[0] == 0


@dataclass(slots=True)
class ModelLog:
    """The remaining records, in offset order, with the delete horizons of their batches."""

    delete_retention_ms: int
    records: list[ModelRecord] = field(default_factory=list)
    horizons_ms: dict[int, int] = field(default_factory=dict)
    """By the base offset of a batch."""
    first_dirty: int = 0

    def newest(self, end: int, strategy: CompactionStrategy) -> dict[bytes, ModelRecord]:
        """The record that stays, for each key below `end`."""
        best: dict[bytes, ModelRecord] = {}
        for record in self.records:
            competes = (
                strategy is not CompactionStrategy.OFFSET or record.offset >= self.first_dirty
            )
            if record.key is None or record.offset >= end or not competes:
                continue
            other = best.get(record.key)
            if other is None or record.rank(strategy) > other.rank(strategy):
                best[record.key] = record
        return best

    def clean(
        self, end: int, strategy: CompactionStrategy, now_ms: int, *, is_last_chunk: bool
    ) -> None:
        """Clean everything below `end` in one pass."""
        best = self.newest(end, strategy)
        met = Counter(record.key for record in self.records if record.offset < end)
        kept: list[ModelRecord] = []
        for record in self.records:
            if record.offset >= end:
                kept.append(record)
                continue
            if record.key is None or best.get(record.key, record) is not record:
                continue
            is_over = self.horizons_ms.get(record.batch, now_ms + 1) <= now_ms
            is_free = strategy is CompactionStrategy.OFFSET or (
                is_last_chunk and met[record.key] == 1
            )
            if record.value is not None or not (is_over and is_free):
                kept.append(record)
        for record in kept:
            if record.value is None and record.offset < end:
                self.horizons_ms.setdefault(record.batch, now_ms + self.delete_retention_ms)
        self.records = kept
        self.first_dirty = end
