"""A small model in a folder, untrained."""

import torch

from rejoinder.encoders.persistence import load, save
from rejoinder.networks.convert import Convert
from rejoinder.text.subwords import Subwords
from tests.encoders.conftest import lively, small_config


def small_model(folder, **config):
    """Write a model folder and open it."""
    torch.manual_seed(0)
    tokenizer = Subwords(
        [chr(0xFE4F), *"abcdefghijklmnopqrstuvwxyz0123456789", "reply", "number"], buckets=8
    )
    save(
        folder,
        lively(Convert(small_config(**config), tokenizer.rows)),
        tokenizer,
        max_length=40,
        card="# A model\n",
    )
    return load(folder)
