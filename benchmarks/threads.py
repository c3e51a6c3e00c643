"""The number of threads of a benchmark's libraries."""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_limits


def use_threads(count: int) -> None:
    """Let PyTorch, NumPy and FAISS compute with so many threads."""
    torch.set_num_threads(count)
    threadpool_limits(count)
