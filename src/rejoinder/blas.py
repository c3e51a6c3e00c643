"""Threads of numpy's matrix products."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits

SMALL = 10**8  # products of numbers of a multiplication that one thread does in some 10 ms


def threads_for(products: int) -> AbstractContextManager[object]:
    """Limit numpy to one thread in a context whose multiplications are small.

    The threads of OpenBLAS wait for each other in busy loops: beside other processes a small
    multiplication takes a hundred times as long on two threads as on one.
    """
    if products > SMALL:
        return contextlib.nullcontext()
    return threadpool_limits(1, user_api="blas")
