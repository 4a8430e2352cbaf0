"""The requests of a run to an object store, and what they cost at list prices."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, replace
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, Final

from rich.console import Console
from rich.filesize import decimal

from tierfold.compaction.model.wording import spaced
from tierfold.jobs.context.run_context import RunContext
from tierfold.jobs.reports.result import Result
from tierfold.storage.tiers.locations import location_of
from tierfold.storage.tiers.request_counts import Requests

PRICES_FILE: Final = "request_prices.toml"

_READS: Final = ("gets", "heads")
_FREE: Final = ("deletes", "aborts")
_TB: Final = 10**12


def with_requests(result: Result, context: RunContext) -> Result:
    """Return the result with the run's requests; unchanged if the tier is a folder.

    The document gets them as `requests`, the tables as a last line.
    """
    scheme = location_of(context.tier_uri, of="tier").scheme
    if scheme == "file":
        return result
    spent, bytes_in = context.requests, result.bytes_in

    def printed(console: Console) -> None:
        result.print_tables(console)
        console.print(sentence(spent, scheme, bytes_in), style="dim")

    return replace(
        result,
        document=lambda: result.document() | {"requests": entry(spent, scheme, bytes_in)},
        print_tables=printed,
    )


def entry(spent: Requests, scheme: str, bytes_in: int) -> dict[str, Any]:
    """Return the document's entry: counts, bytes, and US dollars at list prices."""
    cost = cost_usd(spent, scheme)
    return {
        **asdict(spent),
        "cost_usd": float(cost),
        "cost_usd_per_tb_compacted": float(cost * _TB / bytes_in) if bytes_in else None,
        "prices_of": str(_prices()["read_on"]),
    }


def sentence(spent: Requests, scheme: str, bytes_in: int) -> str:
    """Return the line below the tables."""
    counts = {name: count for name, count in asdict(spent).items() if not name.endswith("_bytes")}
    kinds = ", ".join(f"{spaced(count)} {name}" for name, count in counts.items() if count)
    cost = cost_usd(spent, scheme)
    per_tb = f", ${float(cost * _TB / bytes_in):.2f} per TB compacted" if bytes_in else ""
    return (
        f"{spaced(spent.total)} requests ({kinds or 'none'}); {decimal(spent.received_bytes)}"
        f" received, {decimal(spent.sent_bytes)} sent; ${float(cost):.6f} at list prices of"
        f" {_prices()['read_on']}{per_tb}. Requests to the catalog are not counted."
    )


def cost_usd(spent: Requests, scheme: str) -> Fraction:
    """Return the price of the requests; a further try costs as much as a write."""
    prices = _prices()[scheme]
    total = Fraction(0)
    for name, count in asdict(spent).items():
        if name in _FREE or name.endswith("_bytes"):
            continue
        total += count * Fraction(str(prices["read" if name in _READS else "write"])) / 1000
    return total


@cache
def _prices() -> dict[str, Any]:
    text = resources.files("tierfold.conf").joinpath(PRICES_FILE).read_text("utf-8")
    return tomllib.loads(text)
