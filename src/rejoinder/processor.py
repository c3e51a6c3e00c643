"""What this machine's processor can do."""

from __future__ import annotations


def has_fast_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16 products (AVX512-BF16 or AMX)."""
    return _has_any("_is_avx512_bf16_supported", "_is_amx_tile_supported")


def has_exact_int8() -> bool:
    """Whether this processor adds 8-bit products in 32 bits (VNNI or AMX): without, two at a time overflow 16 bits."""
    return _has_any("_is_vnni_supported", "_is_amx_tile_supported")


def _has_any(*probes: str) -> bool:
    import torch

    return any(bool(getattr(torch.cpu, probe, lambda: False)()) for probe in probes)
