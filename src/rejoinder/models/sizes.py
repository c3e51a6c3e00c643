"""How large a model is: the columns of the paper's table of models (CONVERT, Table 2)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rejoinder.models.families import build_module
from rejoinder.models.persistence import parameter_shapes, read_config
from rejoinder.models.quantization import table_names
from rejoinder.models.skeleton import skeleton

SCALE_AND_OFFSET = 8
"""Bytes beside each table of 8 bits."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model, in numbers and in bytes of its weights.

    Attributes:
        embedding_parameters: numbers in the tables that are looked up.
        network_parameters: all other numbers.
        fp32_bytes: of all in float32.
        quantized_bytes: of the tables in 8 bits, with scale and offset, and the others in 16.
    """

    embedding_parameters: int
    network_parameters: int
    fp32_bytes: int
    quantized_bytes: int


def count(shapes: Mapping[str, Sequence[int]], tables: Collection[str]) -> Sizes:
    """Sizes of a network.

    Args:
        shapes: shape of each parameter by name.
        tables: the names that are tables.
    """
    embedding = sum(math.prod(shape) for name, shape in shapes.items() if name in tables)
    network = sum(math.prod(shape) for name, shape in shapes.items() if name not in tables)
    quantized = embedding + 2 * network + SCALE_AND_OFFSET * len(tables)
    return Sizes(embedding, network, 4 * (embedding + network), quantized)


def sizes(folder: Path) -> Sizes:
    """Sizes of a model folder, full or quantised. Reads no weights."""
    _, config = read_config(folder)
    with skeleton():  # which parameters are tables does not depend on their rows
        tables = table_names(build_module(config["model"], rows=2))
    return count(parameter_shapes(folder), tables)
