"""A log drawn in one line: built from the drawing, cleaned, and drawn again.

    picture("0:a=1 [1:b=2 2:c=3] | P7(3:a=) 4:P7:C > | …", folder)

Words stand for batches, in offset order:

    0:a=1           a record: offset, key, value; alone in its batch
    0:a=            a tombstone
    0:=1            a record without a key
    0:''=1  0:a=''  an empty key, an empty value
    0:a=1@7         written at time 7, not 0
    0:a=1#5#-2      with two headers named version, of 8 bytes each; #null, #x: null, another length
    A7(0:a=1)       a batch that a broker appended at 7, which is the time of its records
    [0:a=1 1:b=2]   records in one batch
    0-3:[1:b=2]     a batch of the offsets 0 to 3 with one record left
    2:()  0-3:()    an emptied batch that keeps its place
    P7(…)  p7(…)    a batch of producer 7, transactional or only idempotent; P7.3: under epoch 3
    4:P7:C  4:P7:A  producer 7's COMMIT or ABORT marker; 4:P7:(): emptied
    4:P7:A?         an ABORT marker without an entry in a transaction index
    4:L             a leader change: a control record that ends no transaction
    …^1000          with the delete horizon 1000
    e2              from here on leader epoch 2 (the first is 0)
    |               a segment edge
    0..  ..5        the segment begins at 0, ends at 5, although no batch does
    >               at the end: the last segment is beyond the round (undecided, or too young)

`picture` writes objects to a LocalTieredStorage folder as a broker uploads them. `cleaned` runs the
stages of a round, in this process. `drawn` and `listed` show the live segments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.pictures.batch_words import TIMESTAMP_MS, draft_of, word_of
from tierfold.compaction.model.aborted_transactions import AbortedTransaction
from tierfold.compaction.model.producers import NO_DATA_OFFSET, ProducerEntry
from tierfold.compaction.model.segments import LeaderEpoch, PartitionKey, Segment
from tierfold.storage.kafka.batch_draft import BatchDraft, write_batch
from tierfold.storage.kafka.control_records import ControlType, control_type
from tierfold.storage.segments.broker_upload import BrokerUpload
from tierfold.storage.segments.segment_metadata import read_aborted
from tierfold.storage.segments.segment_reader import Batch, read_segment
from tierfold.storage.tiers.local_tiered_storage import TIER_FOLDER
from tierfold.storage.tiers.remote_tier import Part, RemoteTier, address_of
from tierfold.storage.tiers.tier_uris import open_tier

KEY: Final = PartitionKey(topic="pictures", partition=0, topic_id="P" * 22)
INDEX_INTERVAL_BYTES: Final = 64
"""Small, so that pictures have index entries."""

_WORD: Final = re.compile(r"(?:\[[^]]*\]|\S)+")
_EDGE: Final = re.compile(r"(\d*)\.\.(\d*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A partition in a tier."""

    tier: RemoteTier
    segments: tuple[Segment, ...]
    lineage: tuple[LeaderEpoch, ...]
    is_last_beyond: bool
    """The round does not cover the last segment."""

    @property
    def next_offset(self) -> int:
        """The offset at which a round ends."""
        last = self.segments[-1]
        return last.start_offset if self.is_last_beyond else last.next_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """A segment before it is built."""

    start: int
    end: int
    drafts: tuple[BatchDraft, ...]
    unlisted: frozenset[int]
    """The offsets of ABORT markers without an entry in an index."""


def picture(text: str, folder: Path) -> Log:
    """The log that `text` draws, in a new tier in `folder`."""
    body, _, beyond = text.partition(">")
    if beyond.strip():
        raise ValueError(f"{beyond!r} is drawn after >, which ends a drawing")
    (folder / TIER_FOLDER).mkdir(parents=True)
    tier = open_tier(str(folder))
    found = list(_segments(body))
    drafts = [draft for segment in found for draft in segment.drafts]
    lineage = _lineage(drafts)
    segments = tuple(_upload(tier, drafts, segment, lineage) for segment in found)
    return Log(tier=tier, segments=segments, lineage=lineage, is_last_beyond=">" in text)


def grown(log: Log, text: str) -> Log:
    """The log with further segments, in which no earlier producer writes."""
    found = list(_segments(text))
    drafts = [draft for segment in found for draft in segment.drafts]
    segments = tuple(_upload(log.tier, drafts, segment, log.lineage) for segment in found)
    return replace(log, segments=(*log.segments, *segments))


def _segments(body: str) -> Iterator[_Drawn]:
    leader_epoch = 0
    for part in body.split("|"):
        drafts: list[BatchDraft] = []
        unlisted: set[int] = set()
        edges = ["", ""]
        for word in _WORD.findall(part):
            if edge := _EDGE.fullmatch(word):
                edges = [new or known for new, known in zip(edge.groups(), edges, strict=True)]
            elif word[0] == "e":
                leader_epoch = int(word[1:])
            else:
                drafts.append(draft_of(word.removesuffix("?"), leader_epoch))
                if word.endswith("?"):
                    unlisted.add(drafts[-1].base_offset)
        if not drafts:
            raise ValueError("a segment is drawn without a batch")
        yield _Drawn(
            start=int(edges[0] or drafts[0].base_offset),
            end=int(edges[1] or _end_of(drafts[-1])),
            drafts=tuple(drafts),
            unlisted=frozenset(unlisted),
        )


def _end_of(draft: BatchDraft) -> int:
    return draft.base_offset if draft.last_offset is None else draft.last_offset


def _lineage(drafts: Sequence[BatchDraft]) -> tuple[LeaderEpoch, ...]:
    first: dict[int, int] = {}
    for draft in drafts:
        first.setdefault(draft.leader_epoch, draft.base_offset)
    return tuple(LeaderEpoch(epoch=epoch, start_offset=at) for epoch, at in first.items())


def _upload(
    tier: RemoteTier,
    drafts: Sequence[BatchDraft],
    drawn: _Drawn,
    lineage: Sequence[LeaderEpoch],
) -> Segment:
    """Write a segment's objects as a broker does; return the metadata that discovery reads."""
    start, end = drawn.start, drawn.end
    before = [draft for draft in drafts if draft.base_offset <= end]
    entries = [
        entry
        for entry in _aborted(before)
        if entry.last_offset >= start and entry.last_offset not in drawn.unlisted
    ]
    upload = BrokerUpload(
        start_offset=start,
        log=b"".join(map(write_batch, drawn.drafts)),
        index_interval_bytes=INDEX_INTERVAL_BYTES,
        lineage=tuple(epoch for epoch in lineage if epoch.start_offset <= end),
        aborted=tuple(entries),
        producers=tuple(_producers(before)),
    )
    return upload.put(tier, KEY, end)


def _kind(draft: BatchDraft) -> ControlType | None:
    """The type of an end marker; None: another batch, or the marker is emptied."""
    kind = control_type(draft.records[0].key) if draft.is_control and draft.records else None
    return kind if kind in {ControlType.COMMIT, ControlType.ABORT} else None


def _aborted(drafts: Sequence[BatchDraft]) -> Iterator[AbortedTransaction]:
    """The entries that brokers write to transaction indexes, in the order of the markers."""
    begun: dict[int, int] = {}
    for draft in drafts:
        if draft.is_transactional and not draft.is_control:
            begun.setdefault(draft.producer_id, draft.base_offset)
        elif (kind := _kind(draft)) is not None:
            first = begun.pop(draft.producer_id, None)
            if kind is ControlType.ABORT and first is not None:
                yield AbortedTransaction(
                    producer_id=draft.producer_id,
                    first_offset=first,
                    last_offset=draft.base_offset,
                    last_stable_offset=min(begun.values(), default=draft.base_offset + 1),
                )


def _producers(drafts: Sequence[BatchDraft]) -> tuple[ProducerEntry, ...]:
    """The state of each producer after the drafts, as brokers have it."""
    known: dict[int, ProducerEntry] = {}
    for draft in drafts:
        if draft.producer_id < 0:
            continue
        before = known.get(draft.producer_id)
        entry = ProducerEntry(
            producer_id=draft.producer_id,
            epoch=draft.producer_epoch,
            last_sequence=before.last_sequence if before else -1,
            last_data_offset=before.last_data_offset if before else NO_DATA_OFFSET,
            last_offset_delta=before.last_offset_delta if before else 0,
            last_timestamp_ms=TIMESTAMP_MS,
            coordinator_epoch=0,
            current_txn_first_offset=None,
        )
        if not draft.is_control:
            first = before.current_txn_first_offset if before else None
            opened = draft.base_offset if first is None else first
            delta = _end_of(draft) - draft.base_offset
            entry = replace(
                entry,
                last_data_offset=_end_of(draft),
                last_offset_delta=delta,
                last_sequence=delta,
                current_txn_first_offset=opened if draft.is_transactional else None,
            )
        known[draft.producer_id] = entry
    return tuple(known.values())


def drawn(log: Log) -> str:
    """The live segments, in the words that draw them."""
    parts: list[str] = []
    leader_epoch = 0
    for segment in log.segments:
        batches = batches_of(log, segment)
        words = [f"{segment.start_offset}.."] * (batches[0].base_offset > segment.start_offset)
        for batch in batches:
            if batch.leader_epoch != leader_epoch:
                leader_epoch = batch.leader_epoch
                words.append(f"e{leader_epoch}")
            words.append(word_of(batch))
        words += [f"..{segment.end_offset}"] * (batches[-1].last_offset < segment.end_offset)
        parts.append(" ".join(words))
    return " | ".join(parts) + (" >" if log.is_last_beyond else "")


def batches_of(log: Log, segment: Segment) -> list[Batch]:
    """The segment's batches, read from its object."""
    data = log.tier.read_part(address_of(KEY, segment), Part.LOG)
    return list(read_segment(data.tobytes()).batches())


def listed(log: Log) -> str:
    """The transaction index of each segment: producer, first offset, marker."""
    return " | ".join(
        " ".join(
            f"P{entry.producer_id}:{entry.first_offset}-{entry.last_offset}"
            for entry in read_aborted(log.tier, KEY, segment)
        )
        for segment in log.segments
    )


def files_of(log: Log) -> set[str]:
    """Every file of the tier, unfinished objects included."""
    root = Path(log.tier.uri(address_of(KEY, log.segments[0]), Part.LOG)).parents[1]
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
