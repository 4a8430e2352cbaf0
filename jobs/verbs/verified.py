"""What `verify` found out about one partition."""

from __future__ import annotations

from dataclasses import dataclass

from tierfold.compaction.discovery.view import Refusal
from tierfold.compaction.model.refusal_parts import RefusalPart
from tierfold.compaction.model.segments import PartitionKey
from tierfold.compaction.verification.comparison import SecondOpinion
from tierfold.jobs.pipeline.partition_report import FAILED, LEFT, REFUSED, SOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The result of `verify` for one partition."""

    key: PartitionKey
    segments: int = 0
    """Live ones."""
    batches: int = 0
    """Of the live segments, like the other counts."""
    records: int = 0
    """Transaction markers included."""
    markers: int = 0
    """How many of `records` are transaction markers."""
    bytes_read: int = 0
    """Bytes of all logs read, the originals' included."""
    keys_compared: int | None = None
    """Keys whose latest value was compared with the originals; None: `notes` gives the reason."""
    compared_by: str | None = None
    """The compaction strategy of the comparison, as the catalog names it."""
    second_opinion: SecondOpinion | None = None
    """The result of Spark's window; None: not requested, or `notes` gives the reason."""
    keys_deleted: int = 0
    """Of the keys compared, those whose latest record in the originals is a tombstone."""
    index_entries: int = 0
    segments_near: int = 0
    """How many of all that were read, the originals included, were read from a log directory."""
    corruptions: tuple[str, ...] = ()
    """One sentence per corruption; empty: the partition is sound, left or refused."""
    notes: tuple[str, ...] = ()
    left: str = ""
    """Why the partition was not read, a clause; empty: it was, or it is refused."""
    refusal: Refusal | None = None
    """Why it could not be verified; None: it was, or it is left."""

    @property
    def outcome(self) -> str:
        """`sound`, `failed`, `refused` or `left`."""
        if self.refusal is not None:
            return REFUSED
        if self.left:
            return LEFT
        return FAILED if self.corruptions else SOUND

    @property
    def refusals(self) -> tuple[RefusalPart, ...]:
        """Why it could not be verified, each reason by itself; none: it was, or it is left."""
        return () if self.refusal is None else self.refusal.parts

    @property
    def reason(self) -> str:
        """The first corruption, and how many there are; or why the partition was not verified."""
        if self.refusal is not None:
            return self.refusal.sentence
        if not self.corruptions:
            return self.left
        more = len(self.corruptions) - 1
        return self.corruptions[0] + (f" (and {more} more)" if more else "")
