"""Keeping freed memory: without it, every large tensor is fetched from the operating system page by page."""

from __future__ import annotations

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_memory() -> bool:
    """Let glibc reuse the memory of freed large tensors instead of giving it back at once.

    By default glibc maps each block of more than 32 MB (at first: 128 kB) afresh and unmaps it when it is freed; the
    kernel then clears every page again at its first use, which costs more than an element-wise operation on it. A
    training step allocates and frees the same sizes over and over: with the paper's sizes, a tenth of its time goes
    there. The setting is for the whole process, which then stays as large as it once was: only the command and its
    worker processes call this, never the library in a user's process.

    Returns:
        Whether this system's allocator took the setting (Linux with glibc).
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
