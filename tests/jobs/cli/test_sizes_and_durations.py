"""Sizes and durations are parsed as people write them."""

from __future__ import annotations

import click
import pytest

from tierfold.jobs.cli.sizes_and_durations import DURATION_MS, SIZE_BYTES, Quantity


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SIZE_BYTES, "7", 7),
        (SIZE_BYTES, "7B", 7),
        (SIZE_BYTES, "2kB", 2000),
        (SIZE_BYTES, "2KiB", 2048),
        (SIZE_BYTES, "3 MB", 3_000_000),
        (SIZE_BYTES, "10GiB", 10 * 2**30),
        (SIZE_BYTES, "1TiB", 2**40),
        (DURATION_MS, "7ms", 7),
        (DURATION_MS, "90m", 5_400_000),
        (DURATION_MS, "2h", 7_200_000),
        (DURATION_MS, "1d", 86_400_000),
    ],
)
def test_a_quantity_is_a_number_of_its_smallest_unit(kind: Quantity, text: str, value: int) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SIZE_BYTES, ""),
        (SIZE_BYTES, "GiB"),
        (SIZE_BYTES, "1.5GiB"),
        (SIZE_BYTES, "-1"),
        (SIZE_BYTES, "1gib"),
        (SIZE_BYTES, "1h"),
        (DURATION_MS, "1GiB"),
        (DURATION_MS, "1h30m"),
        (DURATION_MS, "24"),
        (DURATION_MS, "0"),
    ],
)
def test_what_is_none_is_refused_with_an_example(kind: Quantity, text: str) -> None:
    with pytest.raises(click.BadParameter, match="such as") as refused:
        kind.convert(text, None, None)
    assert repr(text) in str(refused.value)
