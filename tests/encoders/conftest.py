"""Small networks and texts that the tests of the models share."""

import numpy as np
import torch

from rejoinder.encoders.persistence import save
from rejoinder.encoders.families import build_module
from rejoinder.networks.convert import ConvertConfig
from rejoinder.networks.packing import pack
from rejoinder.text.subwords import Subwords

ROWS = 120
SUBWORDS = Subwords([chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz .,?!'", chr(0xFE4F) + "the"])


def small_config(**changes):
    sizes = {
        "embedding_size": 32,
        "head_size": 8,
        "feed_forward_size": 64,
        "feed_forward_2_size": 48,
    }
    return ConvertConfig(
        **{**sizes, "output_size": 24, "blocks": 3, "attention_spans": (3, 5, 48), **changes}
    )


def lively(module):
    """Random values also where a new network has zeros or ones, so that no part is silent."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return module


def convert(rows=SUBWORDS.rows, **changes):
    """A small ConveRT in evaluation mode: with `history`, a multi-context one."""
    torch.manual_seed(0)
    return lively(build_module(small_config(**changes), rows)).eval()


def saved(folder, max_length=60, **changes):
    """The folder of a model of `convert`."""
    save(folder, convert(**changes), SUBWORDS, max_length=max_length, card="# Mine\n")
    return folder


def random_texts(count, longest=60):
    """Ids and lengths of `count` texts, the longest and the empty one among them."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, longest + 1, count).astype(np.int32)
    lengths[:2] = (longest, 0)
    return generator.integers(0, ROWS - 1, lengths.sum()).astype(np.int32), lengths


def random_batch(count, longest=60):
    return pack(*random_texts(count, longest), ROWS - 1)
