"""Small forms of vectors for the scan, and how far a score computed from them can be from the true one.

A row x is stored exactly in float32. For the scan it may also be stored as x' in float16, or as 8-bit codes c with one
scale per row, x' = scale·c. For a query q the scan computes a = fl(q·x'). With r = x - x' the error is bounded by

    |q·x - a| <= |q|·|r| + |q·x' - fl(q·x')| <= |q|·|r| + g·|q|·|x'|        (Cauchy-Schwarz)

where g = d·u / (1 - d·u), u = 2^-24, covers any order of a float32 summation (Higham, Accuracy and Stability of
Numerical Algorithms, 3.1). Where the processor has 8-bit products the query is coded too, which adds |q - q'|·|x'|.
The lengths of these rests are measured, so for 8 bits at d = 512 the bound is about 0.02. It turns a fast scan into
an exact search: whatever cannot be among the best k by its bound is left out, the rest is scored again with the exact
rows (`scan.py`).
"""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from rejoinder.errors import InputError
from rejoinder.ranker import FloatArray

Dtype: TypeAlias = Literal["float32", "float16", "int8"]
DTYPES: tuple[Dtype, ...] = ("float32", "float16", "int8")
Array: TypeAlias = npt.NDArray[Any]

LONGEST = 1.01
"""Of unit vectors: a model that normalises in 16 bits may miss 1 by a little."""
_UNIT_ROUNDOFF = 2.0**-24
_LARGEST_HALF = 65_504
# Numbers converted to float32 at once: 128 KB stay in the cache, and PyTorch does not start its threads for so few.
# Its threads and those of NumPy's products, each waiting busily for the next piece, would halt each other.
_CONVERTED_AT_ONCE = 32_767


def check_rows(vectors: Array, what: str, first: int = 0, *, unit: bool = True) -> FloatArray:
    """Return `vectors` as (n, d) float32 after checking that each row is finite and of length one (or zero).

    Args:
        vectors: what an encoder gave.
        what: "reply" or "context", for the message.
        first: the number of the first row, for the message.
        unit: False allows rows of any finite length.

    Raises:
        InputError: names the first row that cannot be used.
    """
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    if rows.ndim != 2:
        raise InputError(f"the model gives encodings of shape {rows.shape}; an index holds one vector per {what}")
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    good = (lengths == 0) | ((lengths > 2 - LONGEST) & (lengths < LONGEST)) if unit else np.isfinite(lengths)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        reason = "its training may have diverged" + (", or it does not normalise" if unit else "")
        raise InputError(
            f"the model's vector of {what} {first + row} has length {lengths[row]:.4g}{', not 1' if unit else ''}: "
            f"{reason}; use another model"
        )
    return rows


def encode_rows(vectors: FloatArray, dtype: Dtype) -> dict[str, Array]:
    """The arrays that the scan needs beside the exact rows.

    Args:
        vectors: (n, d) exact rows.
        dtype: form of the rows in the scan.

    Returns:
        Nothing for float32; `codes` (n, d) for float16; `codes` (n, d), `scales` (n,) and `errors` (n,), the length
        of x - x' rounded up, for int8.

    Raises:
        InputError: a number is too large for float16.
    """
    if dtype == "float32":
        return {}
    if dtype == "float16":
        if (largest := np.abs(vectors).max(initial=0)) >= _LARGEST_HALF:
            raise InputError(f"a vector holds {largest:.4g}, too much for float16; use float32 or int8")
        return {"codes": vectors.astype("<f2")}
    codes, scales = quantize(vectors)
    rest = vectors.astype(np.float64) - codes * scales[:, None].astype(np.float64)
    return {"codes": codes, "scales": scales, "errors": _round_up(np.linalg.norm(rest, axis=1))}


def _round_up(lengths: npt.NDArray[np.float64]) -> FloatArray:
    return np.nextafter(lengths.astype("<f4"), np.float32(np.inf))


def quantize(vectors: FloatArray) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Symmetric 8-bit codes (n, d) and scales (n,) of rows: x is about scale·code, codes from -127 to 127."""
    scales = np.abs(vectors).max(axis=1, initial=0.0).astype("<f4") / np.float32(127)
    steps = np.where(scales > 0, scales, np.float32(1))[:, None]
    return np.clip(np.rint(vectors / steps), -127, 127).astype(np.int8), scales


class Queries:
    """Queries (q, d), ready to be compared with rows of each form."""

    def __init__(self, vectors: FloatArray) -> None:
        self.vectors = vectors
        self.longest = longest_of(vectors)

    def slack(self, longest: float) -> FloatArray:
        """Bound on the rounding of everything computed in float32 for rows no longer than `longest`.

        |x'| is at most twice that (rounding to the nearest code at most doubles a row); 16 operations for scales and
        bounds; products that underflow.
        """
        relative = 2.1 * (self.vectors.shape[1] + 16) * _UNIT_ROUNDOFF
        return np.array(relative * self.longest * longest + 1e-30, dtype=np.float32)

    @functools.cached_property
    def quantized(self) -> tuple[torch.Tensor, FloatArray, np.float32]:
        """8-bit codes (q, d), scales (q, 1), and the largest length of q - scale·code.

        A second term that codes the rest would halve the bound, but double the time of a scan for one query.
        """
        codes, scales = quantize(self.vectors)
        rest = self.vectors - codes * scales[:, None].astype(np.float64)
        return torch.from_numpy(codes), scales[:, None], _round_up(np.linalg.norm(rest, axis=1)).max(initial=0)


def longest_of(vectors: Array) -> float:
    """The greatest length of rows (n, d), rounded up a little."""
    return float(np.linalg.norm(vectors.astype(np.float64), axis=1).max(initial=0)) * (1 + 1e-6)


def approximate(
    queries: Queries, vectors: Array, arrays: dict[str, Array], rows: slice, longest: float = LONGEST
) -> tuple[FloatArray, FloatArray]:
    """Scores of some rows as the scan sees them, and how far each can be from the true one.

    Args:
        queries: q queries.
        vectors: (n, d) exact rows.
        arrays: what `encode_rows` gave for them.
        rows: which b rows to score.
        longest: bound on the length of a row.

    Returns:
        Scores (q, b) and a bound on their errors, one for all, (), or (b,).
    """
    if "errors" in arrays:
        return _approximate_8_bit(queries, arrays, rows, longest)
    if "codes" in arrays:
        size = vectors.shape[1]
        # Rounding to 11 bits, and for numbers below 2^-14 an absolute error of 2^-25.
        error = queries.longest * (longest * 2.0**-11 + size**0.5 * 2.0**-25)
        return _converted_product(queries.vectors, arrays["codes"][rows]), np.float32(error) + queries.slack(longest)
    # Rows first: for few queries this is the faster order by half.
    return np.ascontiguousarray((vectors[rows] @ queries.vectors.T).T), queries.slack(longest)


def _approximate_8_bit(
    queries: Queries, arrays: dict[str, Array], rows: slice, longest: float
) -> tuple[FloatArray, FloatArray]:
    codes, scales, errors = (arrays[key][rows] for key in ("codes", "scales", "errors"))
    bound = np.float32(queries.longest) * errors + queries.slack(longest)
    if not integer_products_are_exact(codes.shape[1]):
        return _converted_product(queries.vectors, codes) * scales, bound
    query_codes, query_scales, query_error = queries.quantized
    products = torch._int_mm(query_codes, torch.from_numpy(codes).T).numpy()
    scores: FloatArray = products * query_scales
    scores *= scales
    # q·x - q'·x' = q·(x - x') + (q - q')·x', and |x'| <= |x| + |x - x'|.
    return scores, bound + query_error * (np.float32(longest) + errors)


def _converted_product(queries: FloatArray, codes: Array) -> FloatArray:
    """queries·codes^T with the codes converted to float32 a few at a time: (q, b).

    The conversion is PyTorch's since NumPy's from float16 takes five times as long; the product is NumPy's since
    PyTorch's may be set to a lower precision for the whole process.
    """
    scores = np.empty((len(queries), len(codes)), dtype=np.float32)
    step = max(1, _CONVERTED_AT_ONCE // codes.shape[1])
    buffer = torch.empty((step, codes.shape[1]), dtype=torch.float32)
    for start in range(0, len(codes), step):
        piece = torch.from_numpy(codes[start : start + step])
        converted = buffer[: len(piece)].copy_(piece).numpy()
        scores[:, start : start + step] = queries @ converted.T
    return scores


@functools.cache
def integer_products_are_exact(size: int) -> bool:
    """Whether this processor multiplies 8-bit vectors of this size without saturation, found out by trying.

    Without the VNNI instructions the sum of two products may be cut to 16 bits, which would break the bound.
    """
    row = torch.ones(size, dtype=torch.int8)
    row[1::3] = -1
    for count in (2, 64):
        left = (127 * torch.stack([torch.ones_like(row), row])).repeat(count // 2, 1)
        right = torch.cat([left, -left])
        try:
            found = torch._int_mm(left, right.T)
        except (AttributeError, NotImplementedError, RuntimeError):  # this PyTorch has none for this processor
            return False
        if not torch.equal(found.long(), left.long() @ right.long().T):
            return False
    return True
