"""Which mixtures of habits a sample allows, and which share of the log each of them supersedes.

The likeliest mixture is found by expectation maximisation. The ends of the interval are the
smallest and the largest share of all mixtures that are nearly as likely: many mixtures explain a
small sample, and they differ in what they say of the whole log (a profile likelihood). Windows
differ more than records drawn one by one would, so the likelihood is divided by how much more.

The log is cut into parts of their own mixtures, because what follows a record may depend on where
it lies: a table is loaded first and then updated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LIKELIHOOD_DROP: Final = 2.5
"""How much less likely, as a logarithm, a mixture may be. Chosen so that the intervals of the logs
in docs/estimates.md hold; for one unknown number 1.92 would be 95 %."""

_STEPS: Final = 250
"""Steps of each maximisation: it ends before the last digit, as a smooth mixture is wanted."""
_PULLS: Final = np.geomspace(3e-4, 10, 13)
"""How strongly a mixture is pulled to a smaller or larger share, in turn."""
_TINY: Final = 1e-9


class Part(NamedTuple):
    """A part of the log with a mixture of its own."""

    cells: Floats
    """Shape (cells, habits): the chance of each cell."""
    counts: Floats
    """Shape (cells,): how many records of the sample are in each cell."""
    superseded: Floats
    """Shape (habits,): the chance that a record is superseded."""
    weight: float
    """How much of the log it is, as a number of records."""


class Shares(NamedTuple):
    """The superseded share of each part, shape (parts,)."""

    low: Floats
    likely: Floats
    high: Floats


class _Fitted(NamedTuple):
    mixtures: list[Floats]
    likelihood: float
    shares: Floats


def likeliest(parts: Sequence[Part]) -> list[Floats]:
    """The likeliest mixture of each part, shape (habits,)."""
    even = [np.full(part.cells.shape[1], 1 / part.cells.shape[1]) for part in parts]
    return _pulled(parts, _pulled(parts, even, 0.0).mixtures, 0.0).mixtures


def shares_of(
    parts: Sequence[Part], mixtures: Sequence[Floats], overdispersion: float
) -> Shares:
    """The interval of superseded shares; `mixtures`: the likeliest ones.

    `overdispersion`: how many times as much windows differ as single records would, at least 1.
    """
    best = _Fitted([*mixtures], _likelihood(parts, mixtures), _shares(parts, mixtures))
    low, high = (_end(parts, best, sign, overdispersion) for sign in (-1, 1))
    return Shares(np.minimum(low, best.shares), best.shares, np.maximum(high, best.shares))


def _end(parts: Sequence[Part], best: _Fitted, sign: int, overdispersion: float) -> Floats:
    """The shares where the likelihood has dropped as far as allowed, to one side."""
    habits = best.mixtures[0].size
    mixtures = [(mixture + 1e-6) / (1 + 1e-6 * habits) for mixture in best.mixtures]
    dropped, shares = 0.0, best.shares
    for pull in _PULLS:
        found = _pulled(parts, [mixture + _TINY for mixture in mixtures], sign * pull)
        drop = (best.likelihood - found.likelihood) / overdispersion
        if drop > LIKELIHOOD_DROP:
            part = (LIKELIHOOD_DROP - dropped) / (drop - dropped)
            return shares + part * (found.shares - shares)
        mixtures = found.mixtures
        dropped, shares = max(drop, dropped), found.shares
    return shares


def _pulled(parts: Sequence[Part], mixtures: Sequence[Floats], pull: float) -> _Fitted:
    """The likeliest mixtures under a pull to larger shares, or to smaller ones if it is negative.

    Expectation maximisation of likelihood + |pull| × weight × share; each step raises it.
    """
    found = [
        _maximised(part, mixture, pull) for part, mixture in zip(parts, mixtures, strict=True)
    ]
    return _Fitted(found, _likelihood(parts, found), _shares(parts, found))


def _maximised(part: Part, mixture: Floats, pull: float) -> Floats:
    wanted = part.superseded if pull > 0 else 1 - part.superseded
    pulls = abs(pull) * part.weight * wanted
    for _ in range(_STEPS):
        expected = np.maximum(part.cells @ mixture, _TINY**2)
        mixture = mixture * ((part.counts / expected) @ part.cells + pulls)
        mixture = mixture / max(mixture.sum(), _TINY)
    return mixture


def _likelihood(parts: Sequence[Part], mixtures: Sequence[Floats]) -> float:
    """The logarithm of the likelihood."""
    pairs = zip(parts, mixtures, strict=True)
    return float(
        sum(part.counts @ np.log(np.maximum(part.cells @ mix, _TINY**2)) for part, mix in pairs)
    )


def _shares(parts: Sequence[Part], mixtures: Sequence[Floats]) -> Floats:
    pairs = zip(parts, mixtures, strict=True)
    return np.array([float(part.superseded @ mixture) for part, mixture in pairs])
