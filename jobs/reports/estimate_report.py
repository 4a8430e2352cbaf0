"""What a run would probably remove, of each partition and of all together: `plan --estimate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal

from tierfold.compaction.deletion.superseded import Removal
from tierfold.compaction.estimation.estimate import Estimate, NotEstimated
from tierfold.compaction.model.wording import counted, dollars
from tierfold.jobs.context.request_prices import ALL_USUAL, StoragePrice, cost_usd, storage_price
from tierfold.jobs.pipeline.partition_report import LEFT, PLANNED, PartitionReport
from tierfold.storage.tiers.request_counts import Requests

FIELDS: Final = tuple(
    f"estimate.{name}"
    for name in (
        *("saved_bytes", "saved_bytes_low", "saved_bytes_high", "saved_share"),
        *("usd_per_month", "usd_per_month_low", "usd_per_month_high", "reason"),
    )
)
"""The fields of an entry that the column "saves" shows."""

_ENDS: Final = ("_low", "", "_high")

_SHARE_MIN: Final = 0.01
"""Below this share of what it reads, a run is not worth it, whatever a byte costs."""

_RANGE_BYTES: Final = 8 * 2**20
"""Bytes of a request for a `.log` (`storage.segments.log_windows`)."""
_OBJECTS: Final = 6
"""Objects of a segment, about, each of them a request to read or to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What the store charges."""

    scheme: str
    storage: StoragePrice
    shares: Mapping[str, Fraction]
    """By storage class, its share of the bytes in scope."""

    def of_run(self, reports: Iterable[PartitionReport]) -> Fraction | None:
        """Return what the requests of a run cost, about; None: the tier is a folder."""
        gets = puts = 0
        for report in reports:
            # Each `.log` is read twice at most: for keys, and to be rewritten.
            gets += 2 * -(-report.bytes_in // _RANGE_BYTES) + _OBJECTS * report.segments_in
            puts += _OBJECTS * report.segments_out
        return cost_usd(Requests(gets=gets, puts=puts), self.scheme, self.shares)


def prices_of(
    scheme: str, given: float | None = None, shares: Mapping[str, Fraction] = ALL_USUAL
) -> Prices:
    """Return the list prices of the store with that scheme; of a folder, those of S3 for bytes.

    `given`: a person's price of storage instead; `shares`: see `storage_price`.
    """
    return Prices(scheme=scheme, storage=storage_price(scheme, given, shares), shares=shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    """Estimates, added up: their ends, too, as if all were too low or too high together."""

    bytes_in: int
    saved: tuple[int, int, int]
    """Low, likely, high."""
    usd: tuple[Fraction, Fraction, Fraction]
    """The same in US dollars a month."""
    read_bytes: int
    ranges: int

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the bytes that a run would read."""
        return tuple(one / max(1, self.bytes_in) for one in self.saved)

    @property
    def entry(self) -> dict[str, Any]:
        """The fields of the document."""
        parts = (("saved_bytes", self.saved), ("saved_share", self.shares))
        found: dict[str, Any] = {"bytes_in": self.bytes_in}
        for name, values in (*parts, ("usd_per_month", tuple(map(float, self.usd)))):
            found |= {name + end: value for end, value in zip(_ENDS, values, strict=True)}
        return found | {"read_bytes": self.read_bytes, "ranges": self.ranges}


def _sum_of(estimates: Sequence[Estimate], price: StoragePrice) -> _Sum:
    names = ("low_bytes", "likely_bytes", "high_bytes")
    saved = [[getattr(one, name) for one in estimates] for name in names]
    stored = [
        sum(part * one.stored_per_byte for part, one in zip(parts, estimates, strict=True))
        for parts in saved
    ]
    low, likely, high = map(sum, saved)
    usd = [price.a_month(round(size_bytes)) for size_bytes in stored]
    return _Sum(
        bytes_in=sum(one.bytes_in for one in estimates),
        saved=(low, likely, high),
        usd=(usd[0], usd[1], usd[2]),
        read_bytes=sum(one.read_bytes for one in estimates),
        ranges=sum(one.ranges for one in estimates),
    )


def estimate_entry(report: PartitionReport, prices: Prices) -> dict[str, Any] | None:
    """Return the field `estimate` of a partition's entry; None: nothing of it could go."""
    match report.estimate:
        case Estimate() as found:
            sum_ = _sum_of([found], prices.storage)
            return {**sum_.entry, "is_whole": found.is_whole, "reason": ""}
        case NotEstimated(reason=reason):
            return {"reason": reason}
        case _:
            return None


def total_entry(reports: Iterable[PartitionReport], prices: Prices) -> dict[str, Any]:
    """Return the field `estimate` of the document: the estimates of what a run would compact."""
    due = _estimated(reports)
    sum_ = _sum_of([found for _, found in due], prices.storage)
    cost = prices.of_run(report for report, _ in due)
    return {
        **sum_.entry,
        "partitions": len(due),
        "request_usd": None if cost is None else float(cost),
        "prices_of": prices.storage.source,
    }


def saves_cell(report: PartitionReport) -> str:
    """Return the cell of the column "saves"."""
    match report.estimate:
        case Estimate() as found:
            about = "" if found.low_bytes == found.high_bytes else "~ "
            shares = [one / max(1, found.bytes_in) for one in (found.low_bytes, found.high_bytes)]
            return f"{about}{decimal(found.likely_bytes)} ({_interval(*shares)})"
        case NotEstimated():
            return "?"
        case _:
            return ""


def why_not(report: PartitionReport) -> tuple[str, ...]:
    """Return why a partition has no estimate, a clause; none: it has one, or needs none."""
    if isinstance(report.estimate, NotEstimated):
        return (f"not estimated: {report.estimate.reason}",)
    return ()


def print_estimate(
    console: Console, reports: Sequence[PartitionReport], prices: Prices
) -> None:
    """Print what would go of all that a run would compact, and whether it is worth it."""
    due = _estimated(reports)
    if not due:
        return
    sum_ = _sum_of([found for _, found in due], prices.storage)
    console.print(
        f"Estimate: of {decimal(sum_.bytes_in)} about {_about(*map(decimal, sum_.saved))} would go,"
        f" {_interval(sum_.shares[0], sum_.shares[2])}; that is {_about(*map(dollars, sum_.usd))} a"
        f" month ({prices.storage.source}). {decimal(sum_.read_bytes)} of the log were read, in"
        f" {counted(sum_.ranges, 'range')}.",
    )
    cost = prices.of_run(report for report, _ in due)
    console.print(_whether_worth_it(sum_, cost))
    if any(part.removal is Removal.KEPT for one, _ in due for part in one.superseded or ()):
        console.print(
            "But as set here nothing deletes what a run replaces, so the tier would grow: name its"
            " brokers, or set tier.binding=detached if none serves it.",
            style="yellow",
        )
    missing = [one for one in reports if isinstance(one.estimate, NotEstimated)]
    if missing:
        console.print(f"{counted(len(missing), 'partition')} could not be estimated.")


def _whether_worth_it(sum_: _Sum, request_usd: Fraction | None) -> str:
    """Whether a run is worth it, a sentence."""
    low, high = sum_.shares[0], sum_.shares[2]
    cost = request_usd or Fraction(0)
    costs = "" if request_usd is None else f", and its requests cost about {dollars(cost)}"
    if high < _SHARE_MIN:
        return (
            f"A run is not worth it: at most {_percent(high)} of what it reads would go{costs}."
        )
    if request_usd is not None and sum_.usd[2] < cost:
        saves = f"it saves {dollars(sum_.usd[2])} a month at most"
        return f"A run is not worth it: {saves}{costs}."
    if low >= _SHARE_MIN and sum_.usd[0] >= cost:
        return f"A run is worth it: at least {_percent(low)} of what it reads would go{costs}."
    return (
        f"Whether a run is worth it is open: {_interval(low, high)} of what it reads would"
        f" go{costs}."
    )


def _estimated(reports: Iterable[PartitionReport]) -> list[tuple[PartitionReport, Estimate]]:
    """The partitions that a run would compact, and their estimates."""
    return [
        (report, report.estimate)
        for report in reports
        if report.outcome in {PLANNED, LEFT} and isinstance(report.estimate, Estimate)
    ]


def _about(low: str, likely: str, high: str) -> str:
    return likely if low == high else f"{likely} ({low} to {high})"


def _interval(low: float, high: float) -> str:
    first, last = _percent(low), _percent(high)
    return first if first == last else f"{first.removesuffix(' %')}–{last}"


def _percent(share: float) -> str:
    digits = 1 if 0 < share < 0.1 else 0
    return f"{100 * share:.{digits}f} %"
