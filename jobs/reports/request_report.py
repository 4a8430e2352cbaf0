"""The requests of a run to an object store, and what they cost at list prices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

from rich.filesize import decimal

from tierfold.compaction.model.wording import counted, dollars, spaced
from tierfold.jobs.context.request_prices import cost_usd, read_on, retrieval_usd
from tierfold.jobs.context.run_context import RunContext
from tierfold.storage.tiers.near_reads import NearReads
from tierfold.storage.tiers.request_counts import Requests

_TB: Final = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The requests of a run to its tier, without those to the catalog."""

    requests: Requests
    cost_usd: Fraction
    retrieval_usd: Fraction = Fraction(0)
    """The retrieval fees of storage classes in it."""

    def entry(self, compacted_bytes: int) -> dict[str, Any]:
        """Return the document's entry: counts, bytes, and US dollars at list prices."""
        fees = {"retrieval_usd": float(self.retrieval_usd)} if self.retrieval_usd else {}
        per_tb = self._per_tb(compacted_bytes)
        return {
            **asdict(self.requests),
            **fees,
            "cost_usd": float(self.cost_usd),
            "cost_usd_per_tb_compacted": None if per_tb is None else float(per_tb),
            "prices_of": read_on(),
        }

    def sentence(self, compacted_bytes: int) -> str:
        """Return the line below the tables."""
        spent = self.requests
        counts = {
            name: count for name, count in asdict(spent).items() if not name.endswith("_bytes")
        }
        kinds = ", ".join(f"{spaced(count)} {name}" for name, count in counts.items() if count)
        per_tb = self._per_tb(compacted_bytes)
        fees = f", {dollars(self.retrieval_usd)} of it for retrieval" if self.retrieval_usd else ""
        compacted = "" if per_tb is None else f", {dollars(per_tb)} per TB compacted"
        return (
            f"{spaced(spent.total)} requests ({kinds or 'none'}); {decimal(spent.received_bytes)}"
            f" received, {decimal(spent.sent_bytes)} sent; {dollars(self.cost_usd)} at list"
            f" prices of {read_on()}{fees}{compacted}. Requests to the catalog are not counted."
        )

    def _per_tb(self, compacted_bytes: int) -> Fraction | None:
        return self.cost_usd * _TB / compacted_bytes if compacted_bytes else None


def near_sentence(near: NearReads, *, in_bucket: bool) -> str:
    """Return the line on what was read from log directories."""
    requests = "; of a log that is stored as it is, each would have been a request"
    return (
        f"{decimal(near.read_bytes)} were read from log directories and not from the tier, in"
        f" {counted(near.reads, 'read')}{requests if in_bucket else ''}."
    )


def spent_in(context: RunContext) -> Spent | None:
    """Return what the run has spent so far; None: the tier is a folder."""
    requests = context.requests
    shares = context.stored.shares
    cost = cost_usd(requests, context.scheme, shares)
    if cost is None:
        return None
    fees = retrieval_usd(requests, context.scheme, shares)
    return Spent(requests=requests, cost_usd=cost, retrieval_usd=fees)
