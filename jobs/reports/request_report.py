"""The requests of a run to an object store, and what they cost at list prices."""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal

from tierfold.compaction.model.wording import spaced
from tierfold.jobs.context.request_prices import cost_usd, read_on
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.reports.result import Result
from tierfold.storage.tiers.request_counts import Requests

_TB: Final = 10**12


def with_requests(result: Result, context: RunContext) -> Result:
    """Return the result with the run's requests; unchanged if the tier is a folder.

    The document gets them as `requests`, the tables as a last line.
    """
    spent, bytes_in = context.requests, result.bytes_in
    cost = cost_usd(spent, context.scheme)
    if cost is None:
        return result

    def printed(console: Console) -> None:
        result.print_tables(console)
        console.print(sentence(spent, cost, bytes_in), style="dim")

    return replace(
        result,
        document=lambda: result.document() | {"requests": entry(spent, cost, bytes_in)},
        print_tables=printed,
    )


def entry(spent: Requests, cost: Fraction, bytes_in: int) -> dict[str, Any]:
    """Return the document's entry: counts, bytes, and US dollars at list prices."""
    return {
        **asdict(spent),
        "cost_usd": float(cost),
        "cost_usd_per_tb_compacted": _per_tb(cost, bytes_in),
        "prices_of": read_on(),
    }


def sentence(spent: Requests, cost: Fraction, bytes_in: int) -> str:
    """Return the line below the tables."""
    counts = {name: count for name, count in asdict(spent).items() if not name.endswith("_bytes")}
    kinds = ", ".join(f"{spaced(count)} {name}" for name, count in counts.items() if count)
    per_tb = _per_tb(cost, bytes_in)
    compacted = "" if per_tb is None else f", ${per_tb:.2f} per TB compacted"
    return (
        f"{spaced(spent.total)} requests ({kinds or 'none'}); {decimal(spent.received_bytes)}"
        f" received, {decimal(spent.sent_bytes)} sent; ${float(cost):.6f} at list prices of"
        f" {read_on()}{compacted}. Requests to the catalog are not counted."
    )


def _per_tb(cost: Fraction, bytes_in: int) -> float | None:
    return float(cost * _TB / bytes_in) if bytes_in else None
