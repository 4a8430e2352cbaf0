"""The parsers of side files, object names and settings, and their checks."""

from __future__ import annotations

import re
import struct
import tomllib
from collections.abc import Callable
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any, Final

import google_crc32c
import numpy as np

from tests.faults.malformed.malformed_bytes import (
    Field,
    corrupted,
    fields_of,
    interesting,
    overwritten,
)
from tests.faults.malformed.malformed_outcome import (
    Outcome,
    Parser,
    WrongAnswer,
    comparison,
    must_equal,
)
from tests.faults.malformed.malformed_reference import must_mean
from tests.storage.decoded_logs import heads_at
from tests.storage.kafka_golden import START_OFFSET, golden
from tierfold.compaction.model.segments import PartitionKey
from tierfold.jobs.settings.layers import config_of_toml
from tierfold.storage.indexes.index_check import check_indexes
from tierfold.storage.indexes.leader_epoch_checkpoint import read_leader_epoch_checkpoint
from tierfold.storage.indexes.offset_index import read_offset_index
from tierfold.storage.indexes.producer_snapshot import read_producer_snapshot
from tierfold.storage.indexes.time_index import read_time_index
from tierfold.storage.indexes.transaction_index import read_transaction_index
from tierfold.storage.tiers.local_tiered_storage import (
    NAMES,
    partition_folder,
    partition_key,
)

_LONG_MAX: Final = 2**63 - 1
_WHERE: Final = "a file"


def _index_file(suffix: str, entry: str) -> Callable[[Random], tuple[bytes, int]]:
    """Return a function that draws an index's bytes and the segment's start offset."""
    size = struct.calcsize(f">{entry}")
    fields = fields_of(entry * 20)

    def made(rng: Random) -> tuple[bytes, int]:
        data = golden(suffix)[: size * rng.choice((0, 1, 5, 20, 10_000))]
        change = corrupted if rng.random() < 0.5 else _field_changed
        start = rng.choice((START_OFFSET, START_OFFSET, 0, _LONG_MAX, _LONG_MAX - 40_000))
        return change(data, rng), start

    def _field_changed(data: bytes, rng: Random) -> bytes:
        return overwritten(data, fields, rng) if data else data

    return made



def _read_offset_index(given: tuple[bytes, int]) -> list[tuple[int, int]]:
    data, start = given
    index = read_offset_index(np.frombuffer(data, np.uint8), start, _WHERE)
    return list(zip(index.offsets.tolist(), index.positions.tolist(), strict=True))


def _plain_offset_index(given: tuple[bytes, int]) -> list[tuple[int, int]]:
    data, start = given
    entries = [(start + delta, at) for delta, at in struct.iter_unpack(">ii", data)]
    must_mean(all(at >= 0 and start <= offset <= _LONG_MAX for offset, at in entries))
    must_mean(all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries)))
    return entries


def _read_time_index(given: tuple[bytes, int]) -> list[tuple[int, int]]:
    data, start = given
    index = read_time_index(np.frombuffer(data, np.uint8), start, _WHERE)
    return list(zip(index.timestamps_ms.tolist(), index.offsets.tolist(), strict=True))


def _plain_time_index(given: tuple[bytes, int]) -> list[tuple[int, int]]:
    data, start = given
    entries = [(time, start + delta) for time, delta in struct.iter_unpack(">qi", data)]
    must_mean(all(time >= 0 and start <= offset <= _LONG_MAX for time, offset in entries))
    must_mean(all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries)))
    return entries


_FIVE_HEADS: Final = heads_at(
    position=np.arange(5) * 100,
    size_bytes=np.full(5, 100),
    max_timestamp_ms=np.array([5, 5, 8, 7, 9]),
)


def _checked_indexes(given: tuple[bytes, bytes, int]) -> Outcome:
    """Check both indexes against a log of five batches; no bytes may raise an error."""
    offset_index, time_index, start = given
    last = np.array([9, 19, 29, 39, 40], np.int64) + start
    base = last - np.array([9, 9, 9, 9, 0])
    heads = replace(_FIVE_HEADS, base_offset=base, last_offset=last)
    found = check_indexes(
        np.frombuffer(offset_index, np.uint8),
        np.frombuffer(time_index, np.uint8),
        heads,
        start_offset=start,
        index_interval_bytes=100,
        names=("an offset index", "a time index"),
    )
    if found.corruptions:
        return Outcome.REFUSED
    # Every entry must be one that a broker could have written.
    for delta, position in struct.iter_unpack(">ii", offset_index):
        batch = position // 100
        lowest = int(base[batch]) - start if batch < len(base) else np.inf
        if position % 100 or not lowest <= delta <= last[-1] - start:
            raise WrongAnswer(f"offset {delta} at position {position}")
    for entry in struct.iter_unpack(">qi", time_index):
        if entry not in {(5, 9), (5, 19), (8, 29), (8, 39), (9, 40)} and entry[1] not in range(40):
            raise WrongAnswer(f"time {entry}")
    return Outcome.RIGHT


def _two_indexes(rng: Random) -> tuple[bytes, bytes, int]:
    positions = struct.pack(">iiii", 29, 200, 40, 400)
    times = struct.pack(">qiqi", 8, 29, 9, 40)
    start = rng.choice((0, 2**40))
    if rng.random() < 0.5:
        return corrupted(positions, rng), times, start
    return positions, corrupted(times, rng), start


def _read_transaction_index(given: tuple[bytes, int]) -> list[tuple[int, ...]]:
    return [
        (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in read_transaction_index(np.frombuffer(given[0], np.uint8), _WHERE)
    ]


def _plain_transaction_index(given: tuple[bytes, int]) -> list[tuple[int, ...]]:
    must_mean(len(given[0]) % 34 == 0)
    entries = list(struct.iter_unpack(">hqqqq", given[0]))
    must_mean(all(entry[0] == 0 and min(entry) >= 0 and entry[2] <= entry[3] for entry in entries))
    return [entry[1:] for entry in entries]


def _snapshot(rng: Random) -> bytes:
    body = golden("snapshot")[6:]
    entry = rng.randrange((len(body) - 4) // 46) * 46
    fields: tuple[Field, ...] = ((0, "i"), (4 + entry, "q"), (22 + entry, "q"), (42 + entry, "q"))
    body = overwritten(body, fields, rng) if rng.random() < 0.5 else corrupted(body, rng)
    data = struct.pack(">hI", 1, google_crc32c.value(body)) + body
    return corrupted(data, rng) if rng.random() < 0.3 else data


def _read_snapshot(data: bytes) -> list[tuple[int, ...]]:
    found = []
    for entry in read_producer_snapshot(data, _WHERE):
        values = {**asdict(entry), "last_data_offset": max(entry.last_data_offset, -1)}
        found.append(tuple(-1 if value is None else value for value in values.values()))
    return found


def _plain_snapshot(data: bytes) -> list[tuple[int, ...]]:
    version, crc, count = struct.unpack_from(">hIi", data)
    must_mean(version == 1 and crc == google_crc32c.value(data[6:]))
    must_mean(len(data) == 10 + 46 * count)
    return [
        (*entry[:3], max(entry[3], -1), *entry[4:7], max(entry[7], -1))
        for entry in struct.iter_unpack(">qhiqiqiq", data[10:])
    ]


def _checkpoint(rng: Random) -> bytes:
    rows = [(0, 0), (3, 40), (4, 2**33)][: rng.randrange(4)]
    if rows and rng.random() < 0.5:
        epoch, start = rows[-1]
        rows[-1] = rng.choice(((interesting("i", rng), start), (epoch, interesting("q", rng))))
    if rows and rng.random() < 0.2:
        rows[-1] = rng.choice(((2**31, 50), (9, 2**63), (9_999_999_999, 50), (9, 10**19 - 1)))
    lines = ["0", str(len(rows)), *(f"{epoch} {start}" for epoch, start in rows)]
    data = "\n".join([*lines, ""]).encode()
    return corrupted(data, rng) if rng.random() < 0.5 else data


def _read_checkpoint(data: bytes) -> list[tuple[int, int]]:
    return [
        (leader_epoch.epoch, leader_epoch.start_offset)
        for leader_epoch in read_leader_epoch_checkpoint(data, _WHERE)
    ]


def _plain_checkpoint(data: bytes) -> list[tuple[int, int]]:
    numbers = [int(word) for word in data.split()]
    must_mean(numbers[0] == 0 and len(numbers) == 2 + 2 * numbers[1])
    rows = list(zip(numbers[2::2], numbers[3::2], strict=True))
    must_mean(all(0 <= epoch < 2**31 and 0 <= start < 2**63 for epoch, start in rows))
    must_mean(all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(rows)))
    return rows


def _name(rng: Random) -> str:
    ids = ("rl6pHZECRGa_ZZ0E-cVE6g", "A" * 22, "-" * 21 + "A", "_" * 22)
    topic = rng.choice(("orders", "a-b", "x" * 249, ".", "-1-2", "ü"))
    partition = rng.choice(("0", "7", "2147483647", "2147483648", "01", "-1"))
    start = rng.choice((0, 40261, 2**63 - 1, 2**63, 10**20 - 1))
    part = rng.choice(("log", "index", "snapshot", "leader_epoch_checkpoint", "log.1", ""))
    name = rng.choice(
        (
            f"{topic}-{partition}-{rng.choice(ids)}",
            f"{start:020d}-{rng.choice(ids)}.{part}",
        )
    )
    if rng.random() < 0.6:
        name = corrupted(name.encode(), rng).decode("utf-8", "surrogateescape")
    return name


def _checked_name(name: str) -> Outcome:
    """Check that a recognized name is valid in Kafka and that writing it again changes nothing."""
    key, segment = partition_key(name), NAMES.parse(name)
    if key is not None:
        must_equal(partition_folder(key).partition("/")[2], name)
        must_equal(key, PartitionKey(topic=key.topic, partition=key.partition, topic_id=name[-22:]))
        if not (re.fullmatch(r"[\w.-]{1,249}", key.topic, re.ASCII) and key.partition < 2**31):
            raise WrongAnswer(f"{key} of {name!r}")
    if segment is not None:
        start, segment_id, part = segment
        must_equal(f"{start:020d}-{segment_id}.{part}", name)
        if start >= 2**63 or not re.fullmatch(r"[\w-]{22}", segment_id, re.ASCII):
            raise WrongAnswer(f"{segment} of {name!r}")
    return Outcome.REFUSED if key is None and segment is None else Outcome.RIGHT


_TOML: Final = """\
[broker]
"log.roll.hours" = 72
"log.segment.bytes" = 1048576

[topics."orders.*"]
"cleanup.policy" = ["compact", "delete"]
"min.cleanable.dirty.ratio" = 0.3
"max.compaction.lag.ms" = 9223372036854775807

[topics.payments]
"cleanup.policy" = "compact"
"compaction.strategy" = "header"
"compaction.strategy.header" = "version"
"""
_ODD_VALUES: Final = (
    "1e999999999",
    "0.0000000000000000000000000000000000000000001",
    "9" * 5000,
    "0x" + "f" * 5000,
    "[" * 5000,
    "{a=" * 3000,
    "1979-05-27T07:32:00Z",
    "99:99:99",
    "true",
    "nan",
    "-1",
    '"\\ud800"',
    '""',
    '""""""',
    "[[[]]]",
)


def _toml(rng: Random) -> str:
    text = _TOML
    if rng.random() < 0.5:
        lines = text.splitlines()
        i = rng.randrange(len(lines))
        name, _, _ = lines[i].partition(" = ")
        lines[i] = f"{name} = {rng.choice(_ODD_VALUES)}"
        text = "\n".join(lines)
    if rng.random() < 0.6:
        text = corrupted(text.encode(), rng).decode("utf-8", "replace")
    return text


def _read_toml(text: str) -> dict[str, list[Any]]:
    config = config_of_toml(text, where=_WHERE)
    layers = {f"topics {table.pattern}": table.layer for table in config.tables}
    layers["broker"] = config.broker
    return {
        name: sorted(repr(setting.value) for setting in layer.values())
        for name, layer in layers.items()
    }


def _plain_toml(text: str) -> dict[str, list[Any]]:
    document = tomllib.loads(text, parse_float=str)
    tables = {f"topics {name}": table for name, table in document.get("topics", {}).items()}
    tables["broker"] = document.get("broker", {})
    return {name: sorted(map(_plain_value, table.items())) for name, table in tables.items()}


def _plain_value(item: tuple[str, Any]) -> str:
    """Return a setting's value, parsed in the obvious way for the type that its name implies."""
    name, value = item
    if name.endswith("policy"):
        names = value if isinstance(value, list) else value.split(",")
        return repr(frozenset(name.strip() for name in names))
    if name.endswith("ratio"):
        return repr(Fraction(value))
    if name.endswith(".hours"):
        return repr(int(value) * 3_600_000)
    if name.endswith("strategy"):
        strategy = value or "offset"  # KIP-280: an empty text is the default.
        return f"<CompactionStrategy.{strategy.upper()}: {strategy!r}>"
    if name.endswith("header"):
        return repr(str(value))
    return repr(int(value))


SIDE_PARSERS: Final = tuple(
    Parser(name=name, made=made, checked=checked)
    for name, made, checked in (
        (
            "offset index",
            _index_file("index", "ii"),
            comparison(_read_offset_index, _plain_offset_index),
        ),
        (
            "time index",
            _index_file("timeindex", "qi"),
            comparison(_read_time_index, _plain_time_index),
        ),
        ("indexes of a log", _two_indexes, _checked_indexes),
        (
            "transaction index",
            _index_file("txnindex", "hqqqq"),
            comparison(_read_transaction_index, _plain_transaction_index),
        ),
        ("producer snapshot", _snapshot, comparison(_read_snapshot, _plain_snapshot)),
        ("leader epochs", _checkpoint, comparison(_read_checkpoint, _plain_checkpoint)),
        ("object names", _name, _checked_name),
        ("settings", _toml, comparison(_read_toml, _plain_toml)),
    )
)
