"""What requests to an object store cost, at the list prices of `conf/request_prices.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, Final

from tierfold.storage.tiers.request_counts import Requests

_READS: Final = ("gets", "heads")
_FREE: Final = ("deletes", "aborts")


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
