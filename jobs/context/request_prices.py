"""What requests to an object store and its storage cost, at `conf/request_prices.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, Final

from tierfold.compaction.model.wording import dollars
from tierfold.compaction.planning.storage_fees import ClassPrice, ClassPrices
from tierfold.storage.tiers.request_counts import Requests

_READS: Final = ("gets", "heads")
_FREE: Final = ("deletes", "aborts")
_GIB: Final = 2**30
ALL_USUAL: Final[Mapping[str, Fraction]] = {"": Fraction(1)}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What a run did to one topic."""

    size_bytes: int
    """Bytes that it read and wrote."""
    partitions: int


def storage_price(
    scheme: str, given: float | None, shares: Mapping[str, Fraction] = ALL_USUAL
) -> StoragePrice:
    """Return the price of the store with that scheme, or as a person gave it.

    `given`: US dollars per GiB and month. `shares`: by storage class, its share of the bytes.
    """
    if given is not None:
        return StoragePrice(usd_per_gib_month=_exact(given), source="as given")
    prices = _prices().get(scheme) or _prices()[_OF_A_FOLDER]
    by_class = class_prices(scheme)
    price = Fraction(0)
    for name, share in shares.items():
        price += share * by_class.get(name, by_class[""]).usd_per_gib_month
    mixed = "" if shares.keys() <= {""} else ", by storage class"
    return StoragePrice(
        usd_per_gib_month=price, source=f"{prices['name']}, list price of {read_on()}{mixed}"
    )


@cache
def class_prices(scheme: str) -> ClassPrices:
    """Return the prices of a store's storage classes; a folder has those of S3."""
    prices = _prices().get(scheme) or _prices()[_OF_A_FOLDER]
    return {
        name: ClassPrice(
            usd_per_gib_month=_exact(price["storage"]),
            usd_per_gib_read=_exact(price.get("retrieval", 0)),
            minimum_days=price.get("days", 0),
        )
        for name, price in {"": prices, **prices["classes"]}.items()
    }


def cost_usd(
    spent: Requests, scheme: str, shares: Mapping[str, Fraction] = ALL_USUAL
) -> Fraction | None:
    """Return the price in US dollars; a retry costs as much as a write. None: a folder.

    `shares`: by storage class, its share of the bytes in scope, and so of requests and reads.
    """
    prices = _prices().get(scheme)
    if prices is None:
        return None
    cost = Fraction(0)
    for storage_class, share in shares.items():
        of_class = prices | prices["classes"].get(storage_class, {})
        for name, count in asdict(spent).items():
            if name in _FREE or name.endswith("_bytes"):
                continue
            of = prices if name == "lists" else of_class
            cost += share * count * _exact(of["read" if name in _READS else "write"]) / 1000
    return cost + retrieval_usd(spent, scheme, shares)


def retrieval_usd(
    spent: Requests, scheme: str, shares: Mapping[str, Fraction] = ALL_USUAL
) -> Fraction:
    """Return the retrieval fees in it."""
    prices = class_prices(scheme)
    fee = sum(
        (share * prices[name].usd_per_gib_read for name, share in shares.items() if name in prices),
        Fraction(0),
    )
    return fee * spent.received_bytes / _GIB


def shared_out(total_usd: float, worked: Mapping[str, Worked]) -> dict[str, float]:
    """Split a run's price by the bytes that it read and wrote of each topic.

    A run that read and wrote nothing listed all partitions: there each of them counts the same.
    """
    is_idle = not any(one.size_bytes for one in worked.values())
    weights = {
        topic: one.partitions if is_idle else one.size_bytes for topic, one in worked.items()
    }
    total = sum(weights.values())
    return {topic: total_usd * weight / total for topic, weight in weights.items()}


def usd_text(amount_usd: float | None) -> str:
    """Return an amount as people read it; empty: the tier is a folder."""
    return "" if amount_usd is None else dollars(Fraction(amount_usd))


def _exact(number: float) -> Fraction:
    return Fraction(str(number))


def read_on() -> str:
    """Return the day of the prices, in ISO 8601."""
    return str(_prices()["read_on"])


@cache
def _prices() -> dict[str, Any]:
    text = resources.files("tierfold.conf").joinpath("request_prices.toml").read_text("utf-8")
    return tomllib.loads(text)
