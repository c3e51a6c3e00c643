"""Small transformers of all kinds, and a small tokeniser, for the tests."""

import functools

import torch

from rejoinder.encoders.persistence import load, save
from rejoinder.encoders.families import build_module, parse_config
from rejoinder.text.pretrained import build_bpe
from tests.encoders.conftest import lively

SENTENCE = "hello there how are you today fine thanks and what about the cats they sleep all day long in sun"
WORDS = SENTENCE.split()
SHAPE = {
    "hidden_size": 16,
    "blocks": 2,
    "heads": 2,
    "feed_forward_size": 24,
    "positions": 64,
    "context_length": 40,
}
KINDS = {
    "bi first": {"kind": "bi-encoder"},
    "bi mean": {"kind": "bi-encoder", "reduction": "mean"},
    "bi mean without first": {"kind": "bi-encoder", "reduction": "mean", "mean_with_first": False},
    "bi mean of first m": {
        "kind": "bi-encoder",
        "reduction": "mean-of-first-m",
        "reduced_tokens": 4,
    },
    "bi cosine": {"kind": "bi-encoder", "reduction": "mean", "similarity": "cosine"},
    "poly learnt": {"kind": "poly-encoder", "m": 5, "reduction": "mean", "output_scale": 0.5},
    "poly first": {"kind": "poly-encoder", "m": 9, "codes": "first"},
    "poly last": {"kind": "poly-encoder", "m": 9, "codes": "last"},
    "poly last and first": {"kind": "poly-encoder", "m": 9, "codes": "last-and-first"},
}
CROSS_KINDS = {"cross match": {"kind": "cross-encoder", "mean_match": 3.0}}


@functools.cache
def tokenizer():
    return build_bpe([" ".join(WORDS)] * 4, merges=60)


def network(name="bi first", **changes):
    torch.manual_seed(0)
    values = {**SHAPE, **(KINDS | CROSS_KINDS).get(name, {"kind": name}), **changes}
    config = parse_config({key: value for key, value in values.items() if value is not None})
    return lively(build_module(config, tokenizer().rows)).eval()


def opened(folder, name, precision="fp32", **changes):
    """The model of that name, saved in a folder and opened."""
    save(folder, network(name, **changes), tokenizer(), max_length=20, card="# A model\n")
    return load(folder, precision=precision)
