"""Recipes of small transformers, and a checkpoint to start from."""

import dataclasses
import string

import torch

from rejoinder.encoders import persistence
from rejoinder.encoders.export.checkpoints import load_tokenizer, read_shape, save_checkpoint
from rejoinder.encoders.families import build_module
from rejoinder.networks.transformer import Transformer, TransformerShape
from rejoinder.text.pretrained import BERT, Pretrained
from tests.training.tiny import recipe, stage

SHAPE = TransformerShape(
    hidden_size=16, blocks=2, heads=2, feed_forward_size=32, positions=64, dropout=0.1
)
OF_RECIPES = TransformerShape(hidden_size=8, blocks=6, heads=2, feed_forward_size=8, positions=512)
"""Stands for BERT, MiniLM and own weights in recipes, which tests do not fetch."""


def letters():
    """A WordPiece tokeniser whose tokens are letters."""
    pieces = string.ascii_lowercase
    tokens = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *pieces,
        *(f"##{piece}" for piece in pieces),
    ]
    plain = dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False)
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    model |= {
        "max_input_chars_per_word": 100,
        "vocab": {token: i for i, token in enumerate(tokens)},
    }
    added = [{"id": i, "content": tokens[i], "special": True, **plain} for i in range(5)]
    described = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": normalizer,
        "model": model,
        "decoder": None,
    }
    return Pretrained(
        described | {"pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None}, BERT
    )


def write_checkpoint(folder, shape=SHAPE, seed=0):
    """A small BERT with random weights, as `transformers` would write it."""
    torch.manual_seed(seed)
    tokenizer = letters()
    save_checkpoint(folder, Transformer(shape, tokenizer.rows), shape, tokenizer, overwrite=True)
    return folder


def transformer_recipe(data, start, model, **sections):
    """A short run of a model that starts from a checkpoint."""
    plain = {
        "init": {"transformer": str(start)},
        "vocabulary": None,
        "model": {"context_length": 30, **model},
        "text": {"max_length": 20},
        "scale": {"first": 1.0, "last": 1.0, "steps": 0},
        "loss": {"smoothing": 0.0},
        "stage": [stage(negatives=5 * (model["kind"] == "cross-encoder"))],
    }
    return recipe(data, **plain | sections)


def write_bi_encoder(checkpoint):
    """A multi-context bi-encoder on a checkpoint, which has learned nothing: its folder, beside it."""
    folder = checkpoint.parent / f"{checkpoint.name}-bi"
    if not folder.exists():
        shape = dataclasses.asdict(read_shape(checkpoint))
        tokenizer = load_tokenizer(checkpoint)
        module = build_module(
            {**shape, "kind": "multi-context-bi-encoder", "dropout": 0.0}, tokenizer.rows
        )
        persistence.save(folder, module, tokenizer, max_length=20, card="# bi")
    return folder
