"""What requests to an object store and its storage cost, at `conf/request_prices.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, Final

from tierfold.storage.tiers.request_counts import Requests

_READS: Final = ("gets", "heads")
_FREE: Final = ("deletes", "aborts")
_GIB: Final = 2**30
_OF_A_FOLDER: Final = "s3"
"""The store whose price of storage stands for that of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePrice:
    """What it costs to keep bytes."""

    usd_per_gib_month: Fraction
    source: str
    """Whose price it is, and of which day."""

    def a_month(self, size_bytes: int) -> Fraction:
        """Return what bytes cost in a month, US dollars."""
        return self.usd_per_gib_month * size_bytes / _GIB


def storage_price(scheme: str, given: float | None) -> StoragePrice:
    """Return the price of the store with that scheme, or as a person gave it.

    `given`: US dollars per GiB and month.
    """
    if given is not None:
        return StoragePrice(usd_per_gib_month=Fraction(str(given)), source="as given")
    prices = _prices().get(scheme) or _prices()[_OF_A_FOLDER]
    return StoragePrice(
        usd_per_gib_month=Fraction(str(prices["storage"])),
        source=f"{prices['name']}, list price of {read_on()}",
    )


def cost_usd(spent: Requests, scheme: str) -> Fraction | None:
    """Return the price in US dollars; a retry costs as much as a write. None: a folder."""
    prices = _prices().get(scheme)
    if prices is None:
        return None
    cost = Fraction(0)
    for name, count in asdict(spent).items():
        if name not in _FREE and not name.endswith("_bytes"):
            cost += count * Fraction(str(prices["read" if name in _READS else "write"])) / 1000
    return cost


def read_on() -> str:
    """Return the day of the prices, in ISO 8601."""
    return str(_prices()["read_on"])


@cache
def _prices() -> dict[str, Any]:
    text = resources.files("tierfold.conf").joinpath("request_prices.toml").read_text("utf-8")
    return tomllib.loads(text)
