"""What "equal to Kafka's own cleaner" means: functions that list the differences, field by field.

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
_LINES_MAX: Final = 30


def equal_logs(
    expected: Sequence[Batch], found: Sequence[Batch], source: Iterable[Batch] = ()
) -> list[str]:
    """The differences between two logs, batch by batch and record by record; empty: equal.

    `source` is the log before both were cleaned. If Kafka copied a compressed batch from it
    unchanged, tierfold must have done so, too. The sizes and CRCs of other compressed batches are
    not compared; those of uncompressed batches are.
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
    if len(differences) > _LINES_MAX:
        more = len(differences) - _LINES_MAX
        differences = [*differences[:_LINES_MAX], f"… and {more} more differences"]
    return differences


def _paired(
    expected: Sequence[Batch], found: Sequence[Batch]
) -> Iterable[tuple[Batch | None, Batch | None]]:
    """Pairs of batches by base offset; by position if the found offsets do not ascend."""
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
    """The entries that a segment needs in `.index` and `.timeindex` (Kafka `LogSegment`).

    They are `(last offset, position)` and `(timestamp, last offset)`. Before a batch both indexes
    get an entry if more than `interval_bytes` were appended since the last one. The time index gets
    another when the segment closes. It gets none unless the largest timestamp has grown.
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
    """The differences between the index files of a folder and the entries that its logs need."""
    differences = [
        f"{line['file']}: {line['bytes']} bytes too many" for line in side_files["trailing"]
    ]
    fields = {"index": ("offset", "position"), "timeindex": ("timestamp", "offset")}
    lines = [*batches, *side_files["index"], *side_files["timeindex"]]
    for stem in sorted({line["file"].rpartition(".")[0] for line in lines}):
        own = [batch for batch in batches if batch["file"] == f"{stem}.log"]
        for kind, wanted in zip(fields, expected_indexes(own, interval_bytes), strict=True):
            file = f"{stem}.{kind}"
            got = [
                tuple(line[name] for name in fields[kind])
                for line in side_files[kind]
                if line["file"] == file
            ]
            differences += [
                f"{file}: entry {index} is {have}, expected {want}"
                for index, (want, have) in enumerate(zip_longest(wanted, got))
                if want != have
            ]
    return differences


def aborted_of(entries: Iterable[Mapping[str, Any]]) -> tuple[tuple[int, ...], ...]:
    """Entries of transaction indexes, sorted: (producer id, first, last, last stable offset)."""
    fields = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    return tuple(sorted(tuple(entry[name] for name in fields) for entry in entries))


def unequal_txnindexes(
    expected: SideFiles, found: SideFiles, segments: Sequence[RemoteSegment]
) -> list[str]:
    """The differences between transaction indexes, and entries in the wrong segment.

    The entries of all segments are compared together, because grouping may differ. But each entry
    belongs to the segment of its marker, whose offset is the entry's last offset.
    """
    wanted, got = aborted_of(expected["txnindex"]), aborted_of(found["txnindex"])
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


def gaps_and_overlaps(segments: Sequence[RemoteSegment], end: int) -> list[str]:
    """Where the segments (in order) do not cover the offsets from 0 to `end` exactly once."""
    wanted = [0, *(segment.end_offset + 1 for segment in segments)]
    found = [*(segment.start_offset for segment in segments), end]
    return [
        f"a segment starts at {start}, expected {want}"
        for want, start in zip(wanted, found, strict=True)
        if start != want
    ]


def explained(differences: Sequence[str], where: str) -> str:
    """The differences below a line that says where to look; empty: there are none."""
    return "\n  ".join([where, *differences]) if differences else ""
