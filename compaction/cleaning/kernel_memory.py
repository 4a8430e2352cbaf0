"""Access to memory for numba kernels: words at any position, and prefetches."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

CACHE_LINE_BYTES: Final = 64
"""What `prefetch` loads, on x86-64 and nearly all ARM64 processors."""

PREFETCH_AHEAD: Final = 16
"""How many steps ahead a loop over records prefetches. Measured with values of 1 KB: the keys of
256 MiB are gathered in 10 ms instead of 20. With the bound in a helper kernel, that takes a third
longer."""

_WORD: Final = ir.IntType(64)
_READ, _KEEP, _DATA = 0, 3, 1
"""LLVM's `prefetch`: for reading, into all caches, data."""


@intrinsic  # type: ignore[untyped-decorator]
def load_u64(typing_context: Any, array: Any, position: Any) -> Any:
    """Eight bytes of a uint8 array as one little-endian integer; the caller checks the bounds.

    Numba has no unaligned load, and eight shifted byte loads cost five times as much.
    """
    signature = types.uint64(array, position)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        address = element_address(context, builder, sig.args[0], arguments)
        return builder.load(builder.bitcast(address, _WORD.as_pointer()), align=1)

    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def store_u64(typing_context: Any, array: Any, position: Any, word: Any) -> Any:
    """Write eight bytes as `load_u64` reads them; the caller checks the bounds."""
    signature = types.void(array, position, types.uint64)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        address = element_address(context, builder, sig.args[0], arguments[:2])
        builder.store(arguments[2], builder.bitcast(address, _WORD.as_pointer()), align=1)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, position: Any) -> Any:
    """Advise the processor to load the cache line of a uint8 array's byte; it may lie outside.

    Where each step of a loop reads another place, the waits for memory of several steps overlap.
    """
    signature = types.void(array, position)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        address = element_address(context, builder, sig.args[0], arguments)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (address.type,), kind)
        builder.call(function, [address, number(_READ), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return signature, codegen


def element_address(context: Any, builder: Any, array_type: Any, element: Any) -> Any:
    """For an intrinsic: the address of an array's element, given as (array, position)."""
    array, position = element
    view = cgutils.create_struct_proxy(array_type)(context, builder, value=array)
    return builder.gep(view.data, [position])
