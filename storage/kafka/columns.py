"""Columns of numpy arrays whose fields and types are listed once, in a dataclass."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray


def empty_columns(kind: type, rows: int, but: tuple[str, ...] = ()) -> dict[str, NDArray[Any]]:
    """An unfilled array of `rows` entries for each field of `kind`, except those in `but`."""
    return {
        name: np.empty(rows, scalar) for name, scalar in _scalars(kind).items() if name not in but
    }


@cache
def _scalars(kind: type) -> dict[str, type[np.generic]]:
    """The numpy type in each field's annotation, such as `int64` of `NDArray[np.int64]`."""
    return {name: get_args(get_args(hint)[1])[0] for name, hint in get_type_hints(kind).items()}
