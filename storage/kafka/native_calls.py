"""Calls C functions from kernels: one call from Python for all batches of a window.

The functions are those of libraries that Python packages bring. Their addresses are arguments of a
kernel and not part of it: another process, which takes the kernel from numba's cache, loads the
libraries elsewhere.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tierfold.compaction.cleaning.kernel_memory import element_address


@cache
def c_function(module: str, name: str) -> Any:  # noqa: ANN401 - ctypes has no public type
    """The C function that a compiled Python module, or a library it loads, exports.

    Its result is a 64-bit word. Raises ImportError if another build of the package hides it.
    """
    spec = find_spec(module)
    found = getattr(ctypes.CDLL(spec.origin), name, None) if spec and spec.origin else None
    if found is None:
        package = module.partition(".")[0]
        raise ImportError(
            f"{module} exports no C function {name}; install the wheel of {package} from PyPI"
        )
    found.restype = ctypes.c_size_t
    return found


def address_of(module: str, name: str) -> int:
    """The address of `c_function`, for `call`."""
    return int(ctypes.cast(c_function(module, name), ctypes.c_void_p).value or 0)


# Numba dictates the signatures, including the unused context.
def _build_pointer(_context: Any, array: Any, _at: Any) -> Any:  # noqa: ANN401
    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:  # noqa: ANN401
        address = element_address(context, builder, sig.args[0], arguments)
        return builder.ptrtoint(address, ir.IntType(64))

    return types.int64(array, types.int64), codegen


def _build_call(_context: Any, _address: Any, words: Any) -> Any:  # noqa: ANN401
    def codegen(_context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:  # noqa: ANN401
        given = cgutils.unpack_tuple(builder, arguments[1])
        word = ir.IntType(64)
        function = ir.FunctionType(word, [word] * len(given)).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), given)

    tuple_of_words = types.UniTuple(types.int64, len(words))  # type: ignore[attr-defined]
    return types.int64(types.int64, tuple_of_words), codegen


pointer: Any = intrinsic(_build_pointer)
"""(array, index) → the address of that element, in a kernel; the array must outlive its use."""

call: Any = intrinsic(_build_call)
"""(address, words) → the word that the function at that address returns, in a kernel.

`words` is a tuple of 64-bit integers. In the C ABI of x86-64 and of ARM64 pointers and sizes are
such words, and a 32-bit integer is the lower half of one; so it is of a result.
"""
