"""Random corruptions of bytes, and of numbers at known positions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeAlias

from tests.storage.corrupted_bytes import patched

Field: TypeAlias = tuple[int, str]
"""The position of a number, and its struct format."""

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
        "8080808000",  # 0 in more bytes than needed
        "808080808000",  # a byte too many for 32 bits
        "feffffffffffffffff01",  # 2^63 − 1
        "ffffffffffffffffff01",  # −2^63
        "ffffffffffffffffff7f",
        "8080808080808080808000",  # a byte too many for 64 bits
        "ffffffffffffffffffffffff",  # does not end
    )
)
_BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}


def interesting(form: str, rng: Random) -> int:
    """Draw a number of this signed struct format that parsers often handle wrongly."""
    bits = _BITS[form]
    edge = 2 ** (bits - 1)
    near = rng.choice((0, 0, 0, 1, -1, 2, 7, 60, 61, 62, 255, 256, 4096))
    around = rng.choice((0, 0, edge - 1, -edge, edge // 2, 2 ** rng.randrange(bits - 1)))
    return (around + near + edge) % (2 * edge) - edge


def fields_of(form: str) -> list[Field]:
    """Return the fields of a struct format."""
    return [(struct.calcsize(f">{form[:i]}"), letter) for i, letter in enumerate(form)]


def overwritten(data: bytes, fields: Sequence[Field], rng: Random) -> bytes:
    """Change one of these numbers to an interesting one, or by a little."""
    at, form = rng.choice(fields)
    if at + struct.calcsize(f">{form}") > len(data):
        return data
    (value,) = struct.unpack_from(f">{form}", data, at)
    edge = 2 ** (_BITS[form] - 1)
    if rng.random() < 0.4:
        value = (value + rng.choice((-7, -2, -1, 1, 2, 61)) + edge) % (2 * edge) - edge
    else:
        value = interesting(form, rng)
    return overwritten_at(data, (at, form), value)


def overwritten_at(data: bytes, field: Field, value: int) -> bytes:
    """Write a number at a field, if the field is within the bytes."""
    at, form = field
    return patched(data, *field, value) if at + struct.calcsize(f">{form}") <= len(data) else data


def corrupted(data: bytes, rng: Random) -> bytes:
    """Apply one to three corruptions of any kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        corruption = rng.choice(_CORRUPTIONS)
        if data or corruption not in _NEED_A_BYTE:
            data = corruption(data, rng)
    return data


def _bit_flipped(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _byte_set(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data))
    byte = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return data[:at] + bytes([byte]) + data[at + 1 :]


def _number_set(data: bytes, rng: Random) -> bytes:
    return overwritten(data, [(rng.randrange(len(data)), rng.choice("bhiq"))], rng)


def _varint_set(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(VARINT_EXTREMES) + data[at + rng.randrange(2) :]


def _truncated(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _stretch(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 4, 8, 34, 46, 61, 200)))


def _repeated(data: bytes, rng: Random) -> bytes:
    start, end = _stretch(data, rng)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 30)) + data[end:]


def _spliced(data: bytes, rng: Random) -> bytes:
    """Replace a range of bytes with another range."""
    start, end = _stretch(data, rng)
    to, to_end = _stretch(data, rng)
    return data[:to] + data[start:end] + data[to_end:]


def _cut_out(data: bytes, rng: Random) -> bytes:
    start, end = _stretch(data, rng)
    return data[:start] + data[end:]


def _zeroed(data: bytes, rng: Random) -> bytes:
    start, end = _stretch(data, rng)
    return data[:start] + bytes(end - start) + data[end:]


_NEED_A_BYTE: Final = (_bit_flipped, _bit_flipped, _byte_set, _number_set, _number_set)
_CORRUPTIONS: Final[Sequence[Callable[[bytes, Random], bytes]]] = (
    *_NEED_A_BYTE,
    *(_varint_set, _truncated, _repeated, _spliced, _cut_out, _zeroed),
)
