"""Encodings brought to two dimensions to be looked at, and a number that says how well categories keep together.

The picture and the number are independent: the number is computed from the encodings, so that it does not change with
the projection, which moves points about as it must.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np

from rejoinder.errors import InputError, MissingExtraError
from rejoinder.ranker import FloatArray

Method: TypeAlias = Literal["tsne", "pca", "isomap"]
METHODS: tuple[Method, ...] = get_args(Method)
"""t-SNE (van der Maaten and Hinton 2008), principal components, Isomap (Tenenbaum and others 2000)."""

PERPLEXITY = 30.0
"""Of t-SNE: about how many neighbours a point looks at."""

NEIGHBOURS = 10
"""k of the purity, and of Isomap's graph."""

_BLOCK = 1024


def project(
    vectors: FloatArray, method: Method = "tsne", *, perplexity: float = PERPLEXITY, seed: int = 0
) -> FloatArray:
    """Two coordinates for each vector; distances between vectors are those between their directions.

    Args:
        vectors: array (n, d); rows are brought to unit length.
        method: t-SNE starts from the principal components.
        perplexity: of t-SNE, below n.
        seed: of t-SNE.

    Returns:
        Array (n, 2).

    Raises:
        InputError: too few vectors.
        MissingExtraError: scikit-learn is not installed.
    """
    rows = unit_rows(vectors)
    if len(rows) < 3:
        raise InputError(f"{len(rows)} texts are too few for a picture; give 3 or more")
    if method == "tsne" and not 1 <= perplexity < len(rows):
        raise InputError(f"t-SNE's perplexity is {perplexity:g}; with {len(rows)} texts it is 1 or more and below that")
    check_sklearn()
    if method == "tsne":
        from sklearn.manifold import TSNE

        found = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(rows)
    elif method == "pca":
        from sklearn.decomposition import PCA

        found = PCA(2, svd_solver="full").fit_transform(rows)
    else:
        from sklearn.manifold import Isomap

        with warnings.catch_warnings():  # a graph in several pieces, as good encodings give, is joined all the same
            warnings.simplefilter("ignore")
            found = Isomap(n_components=2, n_neighbors=min(NEIGHBOURS, len(rows) - 1)).fit_transform(rows)
    return np.asarray(found, dtype=np.float32)


def neighbour_purity(vectors: FloatArray, categories: Sequence[str], neighbours: int = NEIGHBOURS) -> float:
    """How many of a text's nearest neighbours are of its own category: the mean share over all texts, 0 to 1.

    Neighbours are the `neighbours` other texts with the highest cosine, of equal ones the earlier.

    Args:
        vectors: array (n, d).
        categories: n names.
        neighbours: k, below n.

    Raises:
        InputError: there are not more than k texts.
    """
    if not 1 <= neighbours < len(vectors):
        raise InputError(f"{neighbours} neighbours of {len(vectors)} texts; ask for 1 or more, and fewer than texts")
    rows = unit_rows(vectors)
    numbers = np.unique(np.asarray(categories), return_inverse=True)[1]
    hits = 0
    for start in range(0, len(rows), _BLOCK):
        cosines = rows[start : start + _BLOCK] @ rows.T
        own = np.arange(start, start + len(cosines))
        cosines[np.arange(len(cosines)), own] = -np.inf  # a text is no neighbour of itself
        nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :neighbours]
        hits += int(np.count_nonzero(numbers[nearest] == numbers[own][:, None]))
    return hits / (len(rows) * neighbours)


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Every row of (n, d) divided by its length; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def check_sklearn() -> None:
    """Raise MissingExtraError if scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a projection of encodings", "plots") from error
