"""Calls C functions from kernels: one call from Python for all batches of a window.

The functions are those of libraries that Python packages bring. Their addresses are arguments of a
kernel and not part of it: another process, which takes the kernel from numba's cache, loads the
libraries elsewhere.
"""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

MISSING: Final = 0
"""The address of a function that no library exports."""


def exported(module: ModuleType, function: str) -> Any:  # noqa: ANN401 - ctypes has no public type
    """The C function that a compiled Python module, or a library it loads, exports, or None.

    Its arguments and its result are 64-bit words.
    """
    found = getattr(ctypes.CDLL(str(module.__file__)), function, None)
    if found is not None:
        found.restype = ctypes.c_size_t
    return found


def address_of(module: ModuleType, function: str) -> int:
    """The address of `exported`, or `MISSING`: another build of the package may hide it."""
    found = exported(module, function)
    return MISSING if found is None else ctypes.cast(found, ctypes.c_void_p).value or MISSING


# Numba dictates the signatures, including the unused context.
def _build_pointer(_context: Any, array: Any, at: Any) -> Any:  # noqa: ANN401
    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:  # noqa: ANN401
        view = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=arguments[0])
        return builder.ptrtoint(builder.gep(view.data, [arguments[1]]), ir.IntType(64))

    return types.int64(array, types.int64), codegen


def _build_call(_context: Any, address: Any, words: Any) -> Any:  # noqa: ANN401
    def codegen(_context: Any, builder: Any, _sig: Any, arguments: Any) -> Any:  # noqa: ANN401
        given = cgutils.unpack_tuple(builder, arguments[1])
        word = ir.IntType(64)
        function = ir.FunctionType(word, [word] * len(given)).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], function), given)

    return types.int64(types.int64, types.UniTuple(types.int64, len(words))), codegen


pointer: Any = intrinsic(_build_pointer)
"""(array, index) → the address of that element, in a kernel; the array must outlive its use."""

call: Any = intrinsic(_build_call)
"""(address, words) → the word that the function at that address returns, in a kernel.

`words` is a tuple of 64-bit integers. In the C ABI of x86-64 and of ARM64 pointers and sizes are
such words, and a 32-bit integer is the lower half of one; so it is of a result.
"""
