"""What "equal to Kafka's own cleaner" means, field by field, as readable differences.

Only segment borders and the bytes of compressed payloads may differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from tests.oracle.kafka_lab import Batch, SideFiles
from tests.oracle.remote_views import RemoteSegment

_WHERE: Final = frozenset({"file", "pos", "records"})
_BYTES: Final = frozenset({"size", "crc"})
_MOST_LINES: Final = 30


def equal_logs(
    expected: Sequence[Batch], found: Sequence[Batch], source: Iterable[Batch] = ()
) -> list[str]:
    """The differences between two logs, batch by batch and record by record; none: equal.

    `source` is the log that both were cleaned from: a compressed batch that the expected log has
    from there byte for byte must have been copied in the found one too. Sizes and CRCs of other
    compressed batches are not compared; those of uncompressed batches are.
    """
    verbatim = {(batch["baseOffset"], batch["size"], batch["crc"]) for batch in source}
    differences: list[str] = []
    for wanted, got in _paired(expected, found):
        if wanted is None or got is None:
            batch = wanted or got
            assert batch is not None
            kind = "missing" if got is None else "unexpected"
            differences.append(f"batch {batch['baseOffset']}..{batch['lastOffset']} is {kind}")
        else:
            key = (wanted["baseOffset"], wanted["size"], wanted["crc"])
            by_bytes = wanted["codec"] == "none" or key in verbatim
            differences += _unequal_batches(wanted, got, by_bytes=by_bytes)
    if len(differences) > _MOST_LINES:
        more = len(differences) - _MOST_LINES
        differences = [*differences[:_MOST_LINES], f"… and {more} more differences"]
    return differences


def _paired(
    expected: Sequence[Batch], found: Sequence[Batch]
) -> Iterable[tuple[Batch | None, Batch | None]]:
    """Batches of equal base offset side by side; a log whose offsets fall pairs by position."""
    starts = [batch["baseOffset"] for batch in found]
    if starts != sorted(set(starts)):
        return zip_longest(expected, found)
    wanted = {batch["baseOffset"]: batch for batch in expected}
    got = {batch["baseOffset"]: batch for batch in found}
    return [(wanted.get(start), got.get(start)) for start in sorted(wanted.keys() | got.keys())]


def _unequal_batches(wanted: Batch, got: Batch, *, by_bytes: bool) -> list[str]:
    skipped = _WHERE if by_bytes else _WHERE | _BYTES
    where = f"{got['file']} at {got['pos']}, batch {wanted['baseOffset']}"
    differences = _unequal_fields(where, wanted, got, skipped)
    for index, pair in enumerate(zip_longest(wanted["records"], got["records"])):
        want, have = pair
        record = f"{where}, record {index}"
        if want is None or have is None:
            side = "unexpected" if want is None else "missing"
            offset = (want or have or {}).get("offset")
            differences.append(f"{record}: offset {offset} is {side}")
        else:
            differences += _unequal_fields(record, want, have, frozenset())
    return differences


def _unequal_fields(
    where: str, wanted: Mapping[str, Any], got: Mapping[str, Any], skipped: frozenset[str]
) -> list[str]:
    names = sorted((wanted.keys() | got.keys()) - skipped)
    return [
        f"{where}: {name} is {got.get(name)!r}, expected {wanted.get(name)!r}"
        for name in names
        if got.get(name) != wanted.get(name)
    ]


def expected_indexes(
    batches: Iterable[Batch], interval_bytes: int = 4096
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What a segment's batches demand of its `.index` and its `.timeindex` (Kafka `LogSegment`).

    Returns `(last offset, position)` and `(timestamp, last offset)` entries. An entry is due before
    a batch once more than `interval_bytes` were appended since the last; the time index gets one
    whenever the largest timestamp so far has grown, and once more when the segment closes.
    """
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    largest = (-1, -1)
    since_bytes = 0
    for batch in batches:
        if batch["maxTimestamp"] > largest[0]:
            largest = (batch["maxTimestamp"], batch["lastOffset"])
        if since_bytes > interval_bytes:
            offsets.append((batch["lastOffset"], batch["pos"]))
            _grow(times, largest)
            since_bytes = 0
        since_bytes += batch["size"]
    _grow(times, largest)
    return offsets, times


def _grow(times: list[tuple[int, int]], largest: tuple[int, int]) -> None:
    if largest[0] > (times[-1][0] if times else -1):
        times.append(largest)


def unequal_indexes(
    batches: Sequence[Batch], side_files: SideFiles, interval_bytes: int = 4096
) -> list[str]:
    """Where a folder's `.index` and `.timeindex` files are not what its `.log`s demand."""
    differences = [
        f"{line['file']}: {line['bytes']} bytes too many" for line in side_files["trailing"]
    ]
    names = sorted({batch["file"] for batch in batches} | _log_names(side_files))
    for name in names:
        own = [batch for batch in batches if batch["file"] == name]
        offsets, times = expected_indexes(own, interval_bytes)
        stem = name.removesuffix(".log")
        found_offsets = _entries(side_files["index"], stem + ".index", "offset", "position")
        found_times = _entries(side_files["timeindex"], stem + ".timeindex", "timestamp", "offset")
        differences += _unequal_entries(stem + ".index", offsets, found_offsets)
        differences += _unequal_entries(stem + ".timeindex", times, found_times)
    return differences


def _log_names(side_files: SideFiles) -> set[str]:
    lines = side_files["index"] + side_files["timeindex"]
    return {line["file"].rsplit(".", 1)[0] + ".log" for line in lines}


def _entries(lines: Iterable[Mapping[str, Any]], file: str, *fields: str) -> list[tuple[int, ...]]:
    return [tuple(line[name] for name in fields) for line in lines if line["file"] == file]


def _unequal_entries(
    file: str, wanted: Sequence[tuple[int, ...]], got: Sequence[tuple[int, ...]]
) -> list[str]:
    return [
        f"{file}: entry {index} is {have}, expected {want}"
        for index, (want, have) in enumerate(zip_longest(wanted, got))
        if want != have
    ]


def expected_txnindex(side_files: SideFiles) -> list[tuple[int, ...]]:
    """All aborted transactions of a log: (producer id, first, last, last stable offset)."""
    fields = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    return sorted(tuple(line[name] for name in fields) for line in side_files["txnindex"])


def unequal_txnindexes(
    expected: SideFiles, found: SideFiles, segments: Sequence[RemoteSegment]
) -> list[str]:
    """Where a log lists other aborted transactions than Kafka's, or lists one in a wrong segment.

    Segments may be grouped otherwise, so the union counts; but Kafka appends an entry to the
    segment that holds the marker, which is the entry's last offset.
    """
    wanted, got = expected_txnindex(expected), expected_txnindex(found)
    differences = [f"txnindex lacks {entry}" for entry in wanted if entry not in got]
    differences += [f"txnindex has {entry} too many" for entry in got if entry not in wanted]
    if len(set(got)) < len(got):
        differences.append("txnindex lists an entry twice")
    ends = {segment.start_offset: segment.end_offset for segment in segments}
    for line in found["txnindex"]:
        start = int(line["file"].split(".")[0])
        if not start <= line["lastOffset"] <= ends[start]:
            differences.append(f"{line['file']} lists a marker at {line['lastOffset']}")
    return differences
