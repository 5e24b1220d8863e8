"""A hint to the processor that an entry of an array will be read soon: numba has none, LLVM has.

A read that misses the caches holds back all that comes behind it once the processor's window is full, some twenty
probes on; a hint holds nothing back. It changes no result, whatever the place: even one outside the array is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj
from numpy.typing import NDArray

array_of: Any = arrayobj.make_array
function_of: Any = cgutils.get_or_insert_function

READ, KEEP_IN_ALL_CACHES, DATA = 0, 3, 1


def _hint(_typing: Any, array: Any, place: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = array_of(signature.args[0])(context, builder, arguments[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = function_of(builder.module, kind, "llvm.prefetch.p0i8")
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(hint, [address, word(READ), word(KEEP_IN_ALL_CACHES), word(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), emit


# prefetch(array, np.uint64(i)), for a contiguous array.
prefetch = cast(Callable[[NDArray[Any], np.uint64], None], intrinsic(_hint))
