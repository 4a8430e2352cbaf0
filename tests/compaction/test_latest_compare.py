from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from compaction.latest_compare import (
    EXAMPLES_MAX,
    KeyDifference,
    KeysCompared,
    Latest,
    compared,
    sum_of,
)
from tests.compaction.latest_windows import window

keys = st.sampled_from([b"", b"a", b"b", b"ab", b"a key of more than eight bytes"]) | st.binary()
side = st.dictionaries(keys, st.none() | st.binary(max_size=3), max_size=20)


@given(side, side)
def test_keys_are_told_apart_as_a_dictionary_does(
    before: dict[bytes, bytes | None], now: dict[bytes, bytes | None]
) -> None:
    found = compared(window(list(before.items())), window(list(now.items())))
    every = before.keys() | now.keys()
    differing = {
        key
        for key in every
        if (key not in now and before[key] is not None)
        or (key not in before)
        or (key in now and before[key] != now[key])
    }
    assert (found.keys, found.differing) == (len(every), len(differing))
    assert len(found.examples) == min(EXAMPLES_MAX, len(differing))
    assert {example.key for example in found.examples} <= differing


def test_a_tombstone_that_is_gone_is_no_difference() -> None:
    assert compared(window([(b"k", None)]), window([])) == KeysCompared(keys=1)


def test_values_of_one_length_are_told_apart() -> None:
    before, now = window([(b"k", b"one")], 5), window([(b"k", b"two")], 3)
    (example,) = compared(before, now).examples
    assert example == KeyDifference(
        key=b"k",
        before=Latest(offset=5, value_bytes=3),
        now=Latest(offset=3, value_bytes=3),
    )


def test_a_difference_is_a_sentence() -> None:
    lost = KeyDifference(key=b"\x00k", before=Latest(offset=5, value_bytes=3), now=None)
    assert str(lost) == "key 0x006b had a value of 3 bytes (offset 5), has none"
    new = KeyDifference(key=b"k" * 41, before=None, now=Latest(offset=5, value_bytes=-1))
    assert str(new) == f"key 0x{'6b' * 40}… had no record, has a tombstone (offset 5)"


def test_the_earliest_differences_are_shown() -> None:
    pairs: list[tuple[bytes, bytes | None]] = [(bytes([i]), b"v") for i in range(9)]
    found = compared(window(pairs, 10), window([]))
    assert [each.before.offset for each in found.examples if each.before] == [10, 11, 12]
    added = sum_of([found, compared(window(pairs[:1], 3), window([]))])
    assert (added.keys, added.differing) == (10, 10)
    assert [each.before.offset for each in added.examples if each.before] == [3, 10, 11]
