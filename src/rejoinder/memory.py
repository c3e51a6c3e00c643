"""Keeping freed memory: without it, every large tensor is fetched from the operating system page by page."""

from __future__ import annotations

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_memory() -> bool:
    """Let glibc reuse the memory of freed large tensors; return whether this system's allocator can.

    By default glibc maps each large block afresh and unmaps it when freed, and the kernel clears every page again at
    its first use: a tenth of the time of a training step with the paper's sizes. The setting holds for the whole
    process, which then stays as large as it once was: only the command and its workers call this, never the library.
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
