"""Arithmetic of 128-bit numbers for numba kernels, which have none of their own."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.core import types
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic

_HALF: Final = ir.IntType(64)
_WHOLE: Final = ir.IntType(128)
_HALF_BITS: Final = 64


@intrinsic  # type: ignore[untyped-decorator]
def plus_product(
    typing_context: Any, high: Any, low: Any, factor_high: Any, factor_low: Any, word: Any
) -> Any:
    """(high, low) + (factor_high, factor_low) * word, modulo 2**128, as two uint64.

    All arguments are uint64; a pair holds the halves of a number. It is three instructions of a few
    cycles, and the products of several words do not wait for each other.
    """
    half = types.uint64
    signature = UniTuple(half, 2)(half, half, half, half, half)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        bits = ir.Constant(_WHOLE, _HALF_BITS)

        def joined(upper: Any, lower: Any) -> Any:
            shifted = builder.shl(builder.zext(upper, _WHOLE), bits)
            return builder.or_(shifted, builder.zext(lower, _WHOLE))

        product = builder.mul(joined(*arguments[2:4]), builder.zext(arguments[4], _WHOLE))
        total = builder.add(joined(*arguments[:2]), product)
        halves = (builder.trunc(builder.lshr(total, bits), _HALF), builder.trunc(total, _HALF))
        return context.make_tuple(builder, sig.return_type, halves)

    return signature, codegen
