"""`memcpy` for kernels: numba's own loops and slices take twice as long for small records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from tierfold.compaction.cleaning.kernel_memory import element_address
from tierfold.storage.kafka.wire import kernel


# Numba dictates the signature, including the unused context.
def _build_memcpy(
    _context: Any, out: Any, at: Any, source: Any, start: Any, size: Any  # noqa: ANN401
) -> Any:  # noqa: ANN401
    signature = types.void(out, at, source, start, size)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:  # noqa: ANN401
        to, origin = (
            element_address(context, builder, sig.args[i], arguments[i : i + 2]) for i in (0, 2)
        )
        cgutils.raw_memcpy(builder, to, origin, arguments[4], 1)
        return context.get_dummy_value()

    return signature, codegen


_memcpy: Any = intrinsic(_build_memcpy)


@kernel
def copy_bytes(
    source: NDArray[np.uint8], start: int, size: int, out: NDArray[np.uint8], at: int
) -> int:
    """Copy `source[start : start + size]` to `out[at:]`; return the position after it.

    The caller has checked that both are long enough. A size of −1, a null, copies nothing.
    """
    if size <= 0:
        return at
    _memcpy(out, at, source, start, size)
    return at + size
