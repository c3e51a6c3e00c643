"""Memory that the process keeps: settings of the allocator and the cache of oneDNN."""

from __future__ import annotations

import ctypes
import os
import platform

_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_memory() -> bool:
    """Let glibc reuse the memory of freed large tensors.

    Return whether this system's allocator can. By default glibc maps each large block afresh and
    unmaps it when freed, and the kernel clears every page again at its first use: a tenth of the
    time of a training step with the paper's sizes. The setting holds for the whole process, which
    then stays as large as it once was: only the command and its workers call this, never the
    library.
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_MAX, 0) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


def limit_onednn_cache() -> None:
    """Let oneDNN, in this process and those that it starts, keep 64 compiled programs, not 1,024.

    It compiles one for each layer and number of rows, a megabyte each in bfloat16: a server, whose
    batches are of all sizes, would grow by a gigabyte, and be no faster. A convolutional network
    may need more programs, so the library leaves other people's processes alone. Effective before
    oneDNN is first used; what the user has set stays.
    """
    # oneDNN's own, and that of PyTorch's layer
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")
