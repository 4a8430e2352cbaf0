"""Access to memory for numba kernels: words at any position, and prefetches."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

CACHE_LINE_BYTES: Final = 64
"""What `prefetch` loads, on x86-64 and nearly all ARM64 processors."""

PREFETCH_AHEAD: Final = 16
"""How many steps ahead a loop over records prefetches. Measured with values of 1 KB, which gathers
the keys of 256 MiB in 10 ms instead of 20."""

_READ, _KEEP, _DATA = 0, 3, 1
"""LLVM's `prefetch`: for reading, into all caches, data."""


@intrinsic  # type: ignore[untyped-decorator]
def load_u64(typing_context: Any, array: Any, position: Any) -> Any:
    """Eight bytes of a uint8 array as one little-endian integer; the caller checks the bounds.

    Numba has no unaligned load, and eight shifted byte loads cost five times as much.
    """
    signature = types.uint64(array, position)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.load(_address(context, builder, sig, arguments), align=1)

    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def store_u64(typing_context: Any, array: Any, position: Any, word: Any) -> Any:
    """Write eight bytes as `load_u64` reads them; the caller checks the bounds."""
    signature = types.void(array, position, types.uint64)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _address(context, builder, sig, arguments), align=1)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, position: Any) -> Any:
    """Advise the processor to load the cache line of a uint8 array's byte; it may lie outside.

    Where each step of a loop reads another place, the waits for memory of several steps overlap.
    """
    signature = types.void(array, position)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        address = _address(context, builder, sig, arguments)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (address.type,), kind)
        builder.call(function, [address, number(_READ), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return signature, codegen


def _address(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    view = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=arguments[0])
    address = builder.gep(view.data, [arguments[1]])
    return builder.bitcast(address, ir.IntType(64).as_pointer())
