"""Forked processes: a child computes with one thread.

The threads that OpenMP started in the parent are not there in a child, which would wait for them
for ever.
"""

from __future__ import annotations

import os
from functools import cache, partial


@cache
def compute_alone_in_children() -> None:
    """Let PyTorch use one thread in every process that is forked from now on."""
    if hasattr(os, "register_at_fork"):  # Windows does not fork
        import torch

        os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))
