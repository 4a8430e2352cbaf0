"""Bounds on what the files of a table may hold, so that none of them fills the memory.

delta-rs reads a file as large as it is, and unpacks what its pages claim. Anyone who may write
below the catalog could leave a small file that unpacks to gigabytes. So sizes are compared before a
file is read, and of a Parquet file its footer: the codecs, and how much it says is in its columns.
A footer counts a text of a dictionary once, however many rows repeat it. Where that could come to
too much, in all row groups and columns together, the dictionaries and the lengths are read, but the
texts are not repeated.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

JSON_BYTES_MAX: Final = 8 << 20
"""Of a commit, or any other file of a log but checkpoints. A commit of all partitions of a tier has
0.1 MB."""

PARQUET_BYTES_MAX: Final = 1 << 30
"""Of a checkpoint or a data file, and of what it unpacks to. 100,000 segments have 30 MB."""

VALUES_MAX: Final = 1 << 28
"""Of all columns together: a run of equal values is a few bytes, however long it is."""

CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY"})
"""What delta-rs writes by default. Snappy unpacks to at most 64 times its size, others to much more
than a footer has to admit."""

_DICTIONARIES: Final = frozenset({"RLE_DICTIONARY", "PLAIN_DICTIONARY"})

ENCODINGS: Final = frozenset({"PLAIN", "RLE", "BIT_PACKED"}) | _DICTIONARIES
"""What delta-rs writes by default. Others repeat texts without a dictionary."""

_TEXT: Final = "BYTE_ARRAY"

_UNUSED: Final = ("add.deletionVector.", "sidecar.")
"""Columns of a checkpoint that name further files, which delta-rs opens wherever they are. In those
that it writes they are there, and have only nulls."""

_FIXED: Final = "FIXED_LEN_BYTE_ARRAY"
"""A dictionary of it can repeat megabytes, and is not read as one."""

_ROWS: Final = 1 << 16

_MAGIC: Final = b"PAR1"
_LENGTH: Final = struct.Struct("<I")
_ENDING_BYTES: Final = _LENGTH.size + len(_MAGIC)
"""A file ends with the length of its footer and these magic bytes."""

ReadEnd = Callable[[int], bytes]
"""(bytes) → that many bytes at the end of the file; all of a shorter one."""


def json_violation(size_bytes: int) -> str:
    """Why a JSON file of that size is not read, as part of a sentence; empty: it is."""
    if size_bytes <= JSON_BYTES_MAX:
        return ""
    return f"has {size_bytes} bytes, and at most {JSON_BYTES_MAX} are read"


def parquet_violation(size_bytes: int, read_end: ReadEnd) -> str:
    """Why a Parquet file of that size is not read, as part of a sentence; empty: it is.

    The footer is trusted, and the claims of single pages are not seen; see docs/security.md.
    Raises what `read_end` does.
    """
    if size_bytes > PARQUET_BYTES_MAX:
        return f"has {size_bytes} bytes, and at most {PARQUET_BYTES_MAX} are read"
    columns = _columns(read_end)
    if columns is None:
        return f"is cut short: it has {size_bytes} bytes"
    codecs = {column.compression for column in columns} - CODECS
    unpacked = sum(max(0, column.total_uncompressed_size) for column in columns)
    values = sum(max(0, column.num_values) for column in columns)
    if codecs:
        return f"is compressed by {', '.join(sorted(codecs))}, which tierfold does not use"
    if encodings := {name for column in columns for name in column.encodings} - ENCODINGS:
        return f"is encoded by {', '.join(sorted(encodings))}, which tierfold does not use"
    if any(column.physical_type == _FIXED for column in columns):
        return "has texts of a fixed length, which tierfold does not use"
    if unpacked > PARQUET_BYTES_MAX:
        return f"unpacks to {unpacked} bytes, and at most {PARQUET_BYTES_MAX} are read"
    if values > VALUES_MAX:
        return f"has {values} values, and at most {VALUES_MAX} are read"
    if leading := sorted(column.path_in_schema for column in columns if _leads_on(column)):
        return f"names files by `{leading[0]}`, which tierfold does not use"
    repeated = [column for column in columns if _may_repeat(column)]
    if sum(map(_text_bytes_max, repeated)) <= PARQUET_BYTES_MAX:
        return ""
    if (text_bytes := _text_bytes(read_end(size_bytes), repeated)) > PARQUET_BYTES_MAX:
        return f"unpacks to {text_bytes} bytes, and at most {PARQUET_BYTES_MAX} are read"
    return ""


def _leads_on(column: pq.ColumnChunkMetaData) -> bool:
    """Whether it names further files of a log, or does not say that it has only nulls."""
    if not column.path_in_schema.startswith(_UNUSED):
        return False
    says = column.statistics
    return says is None or says.null_count != column.num_values


def _may_repeat(column: pq.ColumnChunkMetaData) -> bool:
    """Whether it has texts in a dictionary, whose page a footer may leave out."""
    has_dictionary = column.has_dictionary_page or not _DICTIONARIES.isdisjoint(column.encodings)
    return bool(column.physical_type == _TEXT and has_dictionary)


def _text_bytes_max(column: pq.ColumnChunkMetaData) -> int:
    """What its texts come to at most: none is longer than all together."""
    bytes_max: int = max(0, column.num_values) * max(0, column.total_uncompressed_size)
    return bytes_max


def _text_bytes(content: bytes, columns: Sequence[pq.ColumnChunkMetaData]) -> int:
    """What the texts of these columns come to, each counted as often as it occurs."""
    paths = sorted({column.path_in_schema for column in columns})
    try:
        file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=paths)
        # Arrow reads no lists whose texts are of the dictionaries of two row groups.
        batches = (
            batch
            for group in range(file.num_row_groups)
            for batch in file.iter_batches(_ROWS, row_groups=[group], columns=paths)
        )
        return sum(_length(column) for batch in batches for column in batch.columns)
    except (pa.ArrowException, OSError):
        return 0  # delta-rs says what is wrong.


def _length(array: pa.Array) -> int:
    if pa.types.is_dictionary(array.type):
        if not pa.types.is_binary(kind := array.type.value_type) and not pa.types.is_string(kind):
            return 0
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
    if pa.types.is_nested(array.type):
        children = array.flatten()
        return sum(map(_length, children if isinstance(children, list) else [children]))
    return 0


def _columns(read_end: ReadEnd) -> list[pq.ColumnChunkMetaData] | None:
    """What the footer says of all columns of all row groups; None: there is no whole footer."""
    end = read_end(64 << 10)
    if len(end) < _ENDING_BYTES or end[-len(_MAGIC) :] != _MAGIC:
        return None
    needed = _LENGTH.unpack_from(end, len(end) - _ENDING_BYTES)[0] + _ENDING_BYTES
    if needed > len(end):
        end = read_end(needed)
    try:
        footer = pq.read_metadata(io.BytesIO(_MAGIC + end[-needed:]))
    except (pa.ArrowException, OSError):
        return None
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    return [group.column(at) for group in groups for at in range(group.num_columns)]
