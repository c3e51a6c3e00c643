"""What this machine's processor can do."""

from __future__ import annotations


def has_fast_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16 products (AVX512-BF16 or AMX)."""
    import torch

    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, probe, lambda: False)()) for probe in probes)
