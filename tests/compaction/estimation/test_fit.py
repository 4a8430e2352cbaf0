"""The interval of a fit has the likeliest share in it; windows that differ make it wider."""

from __future__ import annotations

import numpy as np

from tierfold.compaction.estimation.fit import Part, likeliest, shares_of


def made_up(rng: np.random.Generator) -> list[Part]:
    """One to three parts with two to eight habits; some have little to do with each other."""
    habits, cells = int(rng.integers(2, 9)), int(rng.integers(2, 6))
    return [
        Part(
            cells=rng.dirichlet(np.ones(cells) * rng.choice([0.2, 1, 5]), habits).T,
            counts=rng.integers(0, 40, cells).astype(float),
            superseded=rng.random(habits),
            weight=float(rng.choice([1, 30, 500])),
        )
        for _ in range(int(rng.integers(1, 4)))
    ]


def test_the_likeliest_share_lies_in_the_interval_of_each_part() -> None:
    rng = np.random.default_rng(9)
    for _ in range(5):
        parts = made_up(rng)
        low, likely, high = shares_of(parts, likeliest(parts), 1.0)
        assert (low >= 0).all()
        assert (low <= likely).all()
        assert (likely <= high).all()
        assert (high <= 1 + 1e-9).all()


def test_what_differs_more_than_by_chance_has_a_wider_interval() -> None:
    parts = made_up(np.random.default_rng(2))
    mixtures = likeliest(parts)
    usual, wider = (shares_of(parts, mixtures, factor) for factor in (1.0, 5.0))
    assert (wider.high - wider.low).sum() > (usual.high - usual.low).sum()
    assert np.array_equal(wider.likely, usual.likely)


def test_a_part_without_records_allows_every_share() -> None:
    habits = np.array([0.0, 1.0])
    part = Part(cells=np.full((2, 2), 0.5), counts=np.zeros(2), superseded=habits, weight=0.0)
    low, likely, high = shares_of([part], [np.array([0.5, 0.5])], 1.0)
    assert low <= likely <= high
