"""Dot products of candidates with the vectors of poly-encoded contexts, in the form in which an index stores rows.

Rows come first, (b, d)·(d, M), for M vectors of all contexts together: the few vectors are put in order once, and the
candidates are read from the disk as they lie there. Where rows are 8-bit codes and the processor has 8-bit products
(`codes.py`), the vectors are coded too, with one scale for all vectors of a context: the greatest product of a
candidate is then that of the integers, and most candidates need nothing more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rejoinder.ranker import FloatArray
from rejoinder.retrieval.codes import Array, integer_products_are_exact, longest_of
from rejoinder.retrieval.poly_scores import UNIT_ROUNDOFF

_PACKED_FROM = 256
"""Rows from which oneDNN's product is used: it prepares itself for every number of rows anew, about a millisecond."""
_CONVERTED_AT_ONCE = 512
"""Rows converted to float32 at once: with d = 768 they stay in the cache."""


class PolyQueries:
    """The vectors of q contexts, ready to be multiplied with rows of each form.

    Args:
        contexts: of each context its vectors (m, d), at least one; m may differ.
    """

    def __init__(self, contexts: Sequence[FloatArray]) -> None:
        self.contexts = contexts
        self.vectors = np.ascontiguousarray(np.concatenate(contexts), dtype=np.float32)
        ends = np.cumsum([len(vectors) for vectors in contexts]).tolist()
        self.parts = [slice(end - len(vectors), end) for end, vectors in zip(ends, contexts, strict=True)]
        self.lengths = [longest_of(self.vectors[part]) for part in self.parts]
        """Of each context the length of its longest vector."""

    @functools.cached_property
    def alone(self) -> list[PolyQueries]:
        """Each context for itself."""
        return [self] if len(self.contexts) == 1 else [PolyQueries([vectors]) for vectors in self.contexts]

    @functools.cached_property
    def codes(self) -> tuple[Tensor, list[float], list[float]]:
        """8-bit codes (d, M), and of each context its scale and the largest length of vector - scale·code."""
        codes, scales, rests = np.empty(self.vectors.shape, dtype=np.int8), [], []
        for part in self.parts:
            scale = float(np.abs(self.vectors[part]).max(initial=0) / np.float32(127)) or 1.0
            codes[part] = np.clip(np.rint(self.vectors[part] / np.float32(scale)), -127, 127)
            scales.append(scale)
            rests.append(longest_of(self.vectors[part] - codes[part] * np.float64(scale)))
        return torch.from_numpy(codes).T, scales, rests

    def products(self, rows: Tensor) -> Tensor:
        """Products (b, M) of float32 rows (b, d) with all vectors, computed in float32 whatever PyTorch is set to."""
        if not _computes_float32():
            return torch.from_numpy(rows.numpy() @ self.vectors.T)
        if len(rows) < _PACKED_FROM or self._packed is None:
            return torch.mm(rows, torch.from_numpy(self.vectors).T)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._packed, None, "none", [], "")
        return product

    @functools.cached_property
    def _packed(self) -> Tensor | None:
        """The vectors in the order of oneDNN's products, twice as fast for few vectors; None where there is none."""
        if not (torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")):
            return None
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(torch.from_numpy(self.vectors))
        return packed


@dataclass(frozen=True, slots=True)
class Products:
    """Products of b rows with the vectors of q contexts, and how far they can be from the true ones.

    Attributes:
        queries: the contexts.
        values: (b, M) products, or integers that the scales make products of.
        scales: (b,) of the rows' codes, if `values` are integers or products with codes.
        row_errors: (b,) length of the part of a row that its form leaves out; None if that is no number of its own.
        longest: bound on the length of a row.
        rounded: bound on |x'|, a row as its form has it, and on the error of rounding it where `row_errors` is None.
    """

    queries: PolyQueries
    values: Tensor
    scales: Tensor | None
    row_errors: Tensor | None
    longest: float
    rounded: float

    def errors(self, query: int) -> Tensor:
        """How far the products of each row with one context's vectors can be from the true ones, (b,)."""
        size, length = self.queries.vectors.shape[1], self.queries.lengths[query]
        # Any order of summation (codes.py), and 16 operations more for scales and bounds. A row's form is at most
        # twice as long as the row.
        fixed = length * (self.rounded + 2.1 * (size + 16) * UNIT_ROUNDOFF * self.longest) + 1e-30
        if self.row_errors is None:
            return torch.full((len(self.values),), fixed)
        if self.values.dtype == torch.int32:  # q·x - q'·x' = q·(x - x') + (q - q')·x'
            rest = self.queries.codes[2][query]
            return self.row_errors * (length + rest) + (fixed + rest * self.longest)
        return self.row_errors * length + fixed

    def greatest(self, query: int) -> Tensor:
        """The greatest product of each row with a vector of one context, (b,)."""
        return self._scaled(self.values[:, self.queries.parts[query]].amax(1), query, slice(None))

    def logits(self, query: int, rows: Tensor | slice) -> Tensor:
        """The products of some rows with all vectors of one context, (b', m) float32."""
        return self._scaled(self.values[:, self.queries.parts[query]][rows], query, rows)

    def largest(self, query: int) -> float:
        """Bound on the size of a product, as it was computed."""
        return 2.5 * self.longest * self.queries.lengths[query]

    def _scaled(self, values: Tensor, query: int, rows: Tensor | slice) -> Tensor:
        if self.scales is None:
            return values
        scales = self.scales[rows]
        if values.dtype == torch.int32:
            scales = scales * self.queries.codes[1][query]
        return values * (scales if values.ndim == 1 else scales[:, None])


def multiply(queries: PolyQueries, vectors: Array, arrays: dict[str, Array], rows: slice, longest: float) -> Products:
    """Products of some rows with all vectors.

    Args:
        queries: the contexts.
        vectors: (n, d) exact rows.
        arrays: their small form (`codes.encode_rows`), empty for float32.
        rows: which b rows.
        longest: bound on the length of a row.
    """
    if "codes" not in arrays:
        return Products(queries, queries.products(_tensor(vectors[rows])), None, None, longest, 0.0)
    codes = _tensor(arrays["codes"][rows])
    if "errors" not in arrays:
        # Rounding to 11 bits, and for numbers below 2^-14 an absolute error of 2^-25.
        rounding = longest * 2.0**-11 + math.sqrt(codes.shape[1]) * 2.0**-25
        return Products(queries, _converted(queries, codes), None, None, longest, rounding)
    scales, errors = _tensor(arrays["scales"][rows]), _tensor(arrays["errors"][rows])
    exact = integer_products_are_exact(codes.shape[1])
    values = torch._int_mm(codes, queries.codes[0]) if exact else _converted(queries, codes)
    return Products(queries, values, scales, errors, longest, 0.0)


def _converted(queries: PolyQueries, codes: Tensor) -> Tensor:
    """Products with codes that are converted to float32 a few at a time: (b, M)."""
    values = torch.empty((len(codes), len(queries.vectors)))
    for start in range(0, len(codes), _CONVERTED_AT_ONCE):
        piece = slice(start, start + _CONVERTED_AT_ONCE)
        values[piece] = queries.products(codes[piece].float())
    return values


def _computes_float32() -> bool:
    """Whether PyTorch's float32 products are such: a program may have set them to fewer bits."""
    matmul = getattr(torch.backends.mkldnn, "matmul", None)  # older PyTorch has none
    return getattr(matmul, "fp32_precision", "none") in ("none", "ieee") and _legacy_precision() == "highest"


def _legacy_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set through the newer interface, which was asked already
        return "highest"


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(np.asarray(array))
