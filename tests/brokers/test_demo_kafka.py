"""`make demo-kafka` fails if readers get other values; `.ci/run` runs it whole, on its own broker.

The tests' cluster is none for it: a tier is published to from one catalog.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scripts.demo_kafka import Scan, compared

_BEFORE = {b"a": b"1", b"b": b"2"}
_OTHER = {b"a": b"1", b"b": b"3"}


def scan(latest: Mapping[bytes | None, bytes | None], records: int = 3) -> Scan:
    return Scan(records=records, bytes=1000 * records, latest=latest)


def test_the_same_values_all_the_time_are_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    meanwhile = [scan(_BEFORE), scan(_BEFORE, 2)]
    assert compared(scan(_BEFORE), meanwhile, scan(_BEFORE, 2)) == 0
    printed = capsys.readouterr().out
    assert "read 3 records of 2 keys, 3 000 bytes.\n" in printed
    assert "reads now 2 records of 2 keys, 2 000 bytes.\n" in printed
    assert "2 times" in printed
    assert "always the same." in printed


@pytest.mark.parametrize(
    ("meanwhile", "after"), [([_BEFORE, _OTHER], _BEFORE), ([_BEFORE], _OTHER), ([_BEFORE], {})]
)
def test_another_value_at_any_time_is_a_failure(
    meanwhile: list[Mapping[bytes | None, bytes | None]],
    after: Mapping[bytes | None, bytes | None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compared(scan(_BEFORE), [scan(latest) for latest in meanwhile], scan(after, 2)) == 1
    assert "NOT ALWAYS THE SAME." in capsys.readouterr().out


def test_as_many_bytes_as_before_are_a_failure() -> None:
    assert compared(scan(_BEFORE), [scan(_BEFORE)], scan(_BEFORE)) == 1
