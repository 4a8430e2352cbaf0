"""Harm done to bytes: by chance, and to numbers at known places."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeAlias

Field: TypeAlias = tuple[int, str]
"""Where a number lies, and its struct form."""

VARINT_EXTREMES: Final = tuple(
    bytes.fromhex(text)
    for text in (
        "00",
        "01",  # −1
        "02",
        "7e",
        "7f",
        "8001",
        "feff7f",
        "feffffff0f",  # 2^31 − 1
        "ffffffff0f",  # −2^31
        "feffffff7f",  # more than 32 bits within five bytes
        "8080808000",  # a long way to say 0
        "808080808000",  # a byte too many for 32 bits
        "feffffffffffffffff01",  # 2^63 − 1
        "ffffffffffffffffff01",  # −2^63
        "ffffffffffffffffff7f",
        "8080808080808080808000",  # a byte too many for 64 bits
        "ffffffffffffffffffffffff",  # does not end
    )
)
_BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}


def interesting(form: str, dice: Random) -> int:
    """A number of that signed struct form that a parser may stumble over."""
    bits = _BITS[form]
    edge = 2 ** (bits - 1)
    near = dice.choice((0, 0, 0, 1, -1, 2, 7, 60, 61, 62, 255, 256, 4096))
    around = dice.choice((0, 0, edge - 1, -edge, edge // 2, 2 ** dice.randrange(bits - 1)))
    return (around + near + edge) % (2 * edge) - edge


def overwritten(data: bytes, fields: Sequence[Field], dice: Random) -> bytes:
    """One of these numbers changed to an interesting one, or by a little."""
    at, form = dice.choice(fields)
    size = struct.calcsize(f">{form}")
    if at + size > len(data):
        return data
    (value,) = struct.unpack_from(f">{form}", data, at)
    edge = 2 ** (_BITS[form] - 1)
    if dice.random() < 0.4:
        value = (value + dice.choice((-7, -2, -1, 1, 2, 61)) + edge) % (2 * edge) - edge
    else:
        value = interesting(form, dice)
    return data[:at] + struct.pack(f">{form}", value) + data[at + size :]


def harmed(data: bytes, dice: Random) -> bytes:
    """One to three harms of any kind, one after the other."""
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        data = dice.choice(_HARMS)(data, dice)
    return data


def _bit_flipped(data: bytes, dice: Random) -> bytes:
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]


def _byte_set(data: bytes, dice: Random) -> bytes:
    if not data:
        return data
    at = dice.randrange(len(data))
    return data[:at] + bytes([dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))]) + (
        data[at + 1 :]
    )


def _number_set(data: bytes, dice: Random) -> bytes:
    if not data:
        return data
    return overwritten(data, [(dice.randrange(len(data)), dice.choice("bhiq"))], dice)


def _varint_set(data: bytes, dice: Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(VARINT_EXTREMES) + data[at + dice.randrange(2) :]


def _truncated(data: bytes, dice: Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def _stretch(data: bytes, dice: Random) -> tuple[int, int]:
    start = dice.randrange(len(data) + 1)
    return start, min(len(data), start + dice.choice((1, 4, 8, 34, 46, 61, 200)))


def _repeated(data: bytes, dice: Random) -> bytes:
    start, end = _stretch(data, dice)
    return data[:end] + data[start:end] * dice.choice((1, 1, 2, 30)) + data[end:]


def _spliced(data: bytes, dice: Random) -> bytes:
    """A stretch put where another one was."""
    start, end = _stretch(data, dice)
    to, to_end = _stretch(data, dice)
    return data[:to] + data[start:end] + data[to_end:]


def _cut_out(data: bytes, dice: Random) -> bytes:
    start, end = _stretch(data, dice)
    return data[:start] + data[end:]


def _zeroed(data: bytes, dice: Random) -> bytes:
    start, end = _stretch(data, dice)
    return data[:start] + bytes(end - start) + data[end:]


_HARMS: Final[Sequence[Callable[[bytes, Random], bytes]]] = (
    _bit_flipped,
    _bit_flipped,
    _byte_set,
    _number_set,
    _number_set,
    _varint_set,
    _truncated,
    _repeated,
    _spliced,
    _cut_out,
    _zeroed,
)
