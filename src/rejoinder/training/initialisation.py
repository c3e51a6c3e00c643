"""Starting from a trained model or pretrained transformers: their settings, weights and vectors.

A trunk that learns nothing reads each text once: training then costs what its heads cost. Where all
stages give a trunk's parameters the rate 0 (`rates`), r of a text never changes. The vectors of all
distinct texts of a run are made before it begins, in float16, and batches hold them instead of
tokens. ACL19 and DATA19 train on the fixed vectors of other encoders in the same way (their MAP).

A trunk that learns but is anchored (`init.anchor`) stays so near to where it began that the earlier
messages, most of what a conversation is, may be read by the trunk as it began: a pair costs its
newest message and its response.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rejoinder.arrays import Ids, Joined
from rejoinder.devices import move, segment_cost
from rejoinder.digests import file_digest
from rejoinder.encoders import bundled, folders, joined, persistence
from rejoinder.encoders.export import checkpoints
from rejoinder.encoders.families import FAMILIES, family
from rejoinder.encoders.open import is_library
from rejoinder.errors import InputError
from rejoinder.networks.inference import pack_linears
from rejoinder.networks.packing import TRANSFORMER_SEGMENT_COST, pack
from rejoinder.networks.pair_batches import VectorBatch
from rejoinder.networks.transformer import TransformerShape
from rejoinder.text.tokenizer import Tokenizer
from rejoinder.training.data.tokens import TokenRows, TokenStore, token_hashes
from rejoinder.training.display import Display
from rejoinder.training.distillation import save_array, vectors_once, written_vectors
from rejoinder.training.distributed import Machine
from rejoinder.training.recipe.settings import NO_START, Init, Recipe

OF_HISTORY = (
    "numbered_history",
    "persona_first",
    "persona_weight",
    "input_weight",
    "opening_weight",
    "subject_threshold",
)
CHANGEABLE = ("dropout", *OF_HISTORY, "history_gate")
"""Fields of a model's configuration that a recipe may change: neither shape nor meaning of its
weights depends on it."""
# what it may change to add blocks on top of the model's (see `_grows`)
GROWING = ("blocks", "attention_spans")
# and, where the model has no blocks, how they are made
OF_BLOCKS = ("heads", "feed_forward_size", "relative_bias")
# what it may change in a transformer's structure
FREE_OF_TRANSFORMERS = ("dropout", "output_scale")

OTHER_MODELS = {
    "model": (
        f"or {bundled.HUB}; init.transformer takes minilm or another transformer,"
        " where model.kind is made of transformers"
    ),
    "teacher": f"or {bundled.HUB}; distillation.encoder also takes {bundled.LIBRARIES}",
    "encoder": bundled.ENCODERS,
}
"""Names that a key takes besides folders and names of models, for its error."""


def resolve_init(
    document: dict[str, Any], resolve: Callable[[dict[str, Any], str], dict[str, Any]]
) -> None:
    """Fill in what a recipe takes from `init` and its teacher, in place.

    These are fingerprint, quantized, [model] and max_length. Wrong types in the document are left
    to validation. `resolve` checks [model] and adds its defaults.
    """
    init: Any = document.get("init")
    model = document.get("model", {})
    distillation: Any = document.get("distillation")
    teaches = [key for key in ("teacher", "encoder") if _named(distillation, key)]
    for key in teaches if len(teaches) == 1 else ():  # of two, validation says so
        if key == "teacher" or not is_library(distillation[key]):
            _pin(distillation, key, "distillation")
    start = next((key for key in ("transformer", "model") if _named(init, key)), None)
    if start is None:
        if (
            document
            and "vocabulary" not in document
            and isinstance(model, dict)
            and "kind" not in model
        ):
            raise InputError(NO_START)
        return
    name = init[start]
    if "vocabulary" in document:
        raise InputError(f"the vocabulary is that of init.{start}, {name}; leave [vocabulary] out")
    if start == "transformer":
        document["model"] = _on_transformers(init, model)
        return
    config = _pin(init, "model", "init")
    if config["model"].get("kind") == joined.KIND:
        joined.refuse(name=name)
    quantized = persistence.is_quantized(config)
    if init.get("quantized") not in (None, quantized):
        raise InputError(
            f"init.quantized = {init['quantized']!r}, but of {name} it is {quantized!r}"
        )
    init["quantized"] = quantized
    document["model"] = _merged(model, resolve(config["model"], name), name)
    text = document.setdefault("text", {})
    if isinstance(text, dict):
        text.setdefault("max_length", config["max_length"])


def _named(section: Any, key: str) -> bool:
    return isinstance(section, dict) and isinstance(section.get(key), str) and bool(section[key])


def _pin(section: dict[str, Any], key: str, above: str) -> dict[str, Any]:
    """Read the configuration of the model that a section names, and fill in its fingerprint."""
    try:
        _, config = persistence.read_config(section[key], OTHER_MODELS[key])
    except InputError as error:
        raise InputError(f"{above}.{key}: {error}") from None
    _compare(section, folders.fingerprint(config), above, section[key])
    return config


def _compare(section: dict[str, Any], fingerprint: str, above: str, name: str) -> None:
    if section.get("fingerprint") not in (None, "", fingerprint):
        raise InputError(
            f"{above}.fingerprint = '{section['fingerprint']}', but {name} has '{fingerprint}';"
            " give the model with that fingerprint, or remove the fingerprint"
        )
    section["fingerprint"] = fingerprint


def _merged(section: Any, base: Mapping[str, Any], name: str) -> Any:
    """Return the model's own configuration with what the recipe may change."""
    if not isinstance(section, dict):
        return section
    # An unknown key is not a conflict: validation says which ones there are.
    growing = (
        (*GROWING, *(() if base.get("blocks") else OF_BLOCKS)) if _grows(section, base) else ()
    )
    free = (*CHANGEABLE, *growing)
    conflicts = [
        key
        for key in section
        if key in base and key not in free and section[key] != _plain(base[key])
    ]
    if conflicts:
        listed = ", ".join(
            f"model.{key} = {section[key]!r} (there {_plain(base[key])!r})" for key in conflicts
        )
        raise InputError(
            f"not as in init.model, {name}: {listed};"
            f" leave out what the model brings (only {', '.join(CHANGEABLE)} may differ,"
            " and blocks may be added on top if zero_residual = true), or train from scratch"
        )
    return {**base, **section}


def _grows(section: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Return whether a recipe adds blocks that start at zero on top of a model's.

    They change nothing at first.
    """
    spans = section.get("attention_spans")
    before = _plain(base.get("attention_spans"))
    if (
        not isinstance(spans, list)
        or not isinstance(before, list)
        or section.get("blocks") != len(spans)
    ):
        return False
    # at the end of the trunk
    new_norm = not before and base["token_norm"] and base["norm_placement"] == "before"
    return (
        len(spans) > len(before)
        and spans[: len(before)] == before
        and base["zero_residual"]
        and not new_norm
    )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _on_transformers(init: dict[str, Any], model: Any) -> dict[str, Any]:
    """Return [model] with the shape of the transformer that it builds on."""
    name = init["transformer"]
    try:
        folder = checkpoints.find_checkpoint(name)
        shape = dataclasses.asdict(checkpoints.read_shape(folder))
    except InputError as error:
        raise InputError(f"init.transformer: {error}") from None
    _compare(init, checkpoints.checkpoint_fingerprint(folder), "init", name)
    if blocks := init.get("blocks"):
        last = shape["blocks"] - 1
        if not isinstance(blocks, list) or blocks != [
            number for number in range(last + 1) if number in blocks
        ]:
            raise InputError(
                f"init.blocks = {blocks!r}; give some of {name}'s, 0 to {last}, ascending"
            )
        shape["blocks"] = len(blocks)
    if not isinstance(model, dict) or not _made_of_transformers(model.get("kind")):
        kinds = ", ".join(kind for kind in FAMILIES if _made_of_transformers(kind))
        raise InputError(
            f"init.transformer needs a model.kind that is made of transformers: {kinds}"
        )
    for key, value in shape.items():
        if key not in FREE_OF_TRANSFORMERS and model.get(key, value) != value:
            raise InputError(
                f"model.{key} = {model[key]!r}, but {name} has {value!r}; leave it out"
            )
    return {**shape, **model}


def _made_of_transformers(kind: object) -> bool:
    return (
        isinstance(kind, str)
        and kind in FAMILIES
        and issubclass(family(kind).config, TransformerShape)
    )


def initial_tokenizer(init: Init) -> Tokenizer:
    """Return the vocabulary of the model, unless it was altered after it was saved."""
    if init.transformer:
        return checkpoints.load_tokenizer(_unchanged_checkpoint(init))
    folder, config = _unchanged(init)
    path = folder / folders.VOCABULARY
    if not path.is_file() or file_digest(path) != config["files"][folders.VOCABULARY]:
        raise InputError(
            f"{path} is missing or was altered after it was saved; copy the model folder again"
        )
    return persistence.load_tokenizer(folder, config)


def copy_initial_weights(module: Any, init: Init) -> float | None:
    """Give a new network the model's weights, but blocks on top and a new gate.

    Return its scale if it was learned.
    """
    if init.transformer:
        checkpoint = _unchanged_checkpoint(init)
        for transformer in module.transformers:
            checkpoints.fill(transformer, checkpoint, init.blocks)
        return None
    folder, config = _unchanged(init)
    stored = persistence.load_module(folder)[0].state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if name in stored or not name.startswith(("blocks.", "gate.")):
                value.copy_(stored[name])
    return config.get("scale")


def _unchanged(init: Init) -> tuple[Any, dict[str, Any]]:
    folder, config = persistence.read_config(init.model)
    if folders.fingerprint(config) != init.fingerprint:
        raise InputError(
            f"init.model: {init.model} was replaced by another model since the recipe was read;"
            " run again"
        )
    return folder, config


def _unchanged_checkpoint(init: Init) -> Path:
    folder = checkpoints.find_checkpoint(init.transformer)
    if checkpoints.checkpoint_fingerprint(folder) != init.fingerprint:
        raise InputError(
            "init.transformer:"
            f" {init.transformer} was replaced since the recipe was read; run again"
        )
    return folder


# texts in one call of the trunk
PROCESSOR_TEXTS = 256
CARD_TEXTS = 4096
HASHED_AT_ONCE = 1 << 16


def is_frozen(recipe: Recipe, module: Any) -> bool:
    """Return whether r of a text is the same all through a run, in training too."""
    groups = getattr(module, "trunk_groups", ())
    frozen = all(stage.rate(group) == 0 for stage in recipe.stage for group in groups)
    whole = all(stage.active_blocks == "all" for stage in recipe.stage)
    return bool(groups) and frozen and whole and module.config.dropout == 0


def is_anchored(recipe: Recipe, module: Any) -> bool:
    """Return whether a trunk that learns is held near to where it begins (`init.anchor`)."""
    if not recipe.init.anchor:
        return False
    if not hasattr(module, "trunk_groups"):
        kind = recipe.model["kind"]
        raise InputError(
            "init.anchor is for model.kind = 'multi-context-bi-encoder',"
            f" not '{kind}'; leave it out"
        )
    if is_frozen(recipe, module):
        raise InputError(
            "init.anchor holds a trunk that learns,"
            " but all stages' rates freeze this one; leave it out"
        )
    return True


def trunk_digest(module: Any) -> str:
    """Return a digest of all that r of a text depends on: the trunk's shape and parameters."""
    shape = [
        (field.name, getattr(module.config, field.name))
        for field in dataclasses.fields(TransformerShape)
        if field.name != "dropout"  # the trunk reads without
    ]
    digest = hashlib.sha256(repr(shape).encode())
    groups = module.parameter_groups()
    for parameter in (parameter for group in module.trunk_groups for parameter in groups[group]):
        digest.update(parameter.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class FrozenTexts:
    """r of all texts of some stores."""

    hashes: TokenRows  # of the distinct texts' tokens, ascending (t,)
    vectors: npt.NDArray[np.float16]  # (t, d)

    def __call__(self, ids: Ids, lengths: Ids) -> VectorBatch:
        """Return r of n texts that are among them."""
        places = np.searchsorted(self.hashes, token_hashes(ids, lengths))
        return VectorBatch(
            torch.from_numpy(self.vectors[places].astype(np.float32)), int(lengths.sum())
        )


def _texts(store: TokenStore, rows: TokenRows) -> Iterator[tuple[Any, TokenRows]]:
    """Yield columns of texts, and which of each some examples have."""
    yield store.input, rows
    yield store.response, rows
    if store.history is not None:
        yield store.history.texts, store.history.numbers(rows)
    if store.given is not None:
        yield store.given.texts, np.arange(len(store.given.texts))


def read_texts_once(
    path: Path,
    examples: Sequence[tuple[TokenStore, TokenRows]],
    module: Any,
    machine: Machine,
    display: Display,
) -> FrozenTexts:
    """Let a module's trunk read all texts of examples into a file.

    Go on where an earlier call stopped.
    """
    kept = path.with_suffix(".hashes.npy")
    if kept.exists() and path.exists():  # the vectors are whole
        return FrozenTexts(np.load(kept), written_vectors(path))
    columns, numbers = zip(
        *(piece for store, rows in examples for piece in _texts(store, rows)), strict=True
    )
    starts = np.cumsum([0, *map(len, columns[:-1])])
    texts = Joined(columns)
    every = np.concatenate([rows + start for rows, start in zip(numbers, starts, strict=True)])
    pieces = np.split(every, range(HASHED_AT_ONCE, len(every), HASHED_AT_ONCE))
    row_hashes = np.concatenate(
        [token_hashes(ids, lengths) for ids, lengths in map(texts.gather, pieces)]
    )
    hashes, firsts = np.unique(row_hashes, return_index=True)

    module.eval()
    if machine.device.type == "cpu":  # nothing of it learns here: its fast form does
        module = pack_linears(
            copy.deepcopy(module), "bf16" if machine.precision == "bf16" else "fp32"
        )

    at_once = PROCESSOR_TEXTS if machine.device.type == "cpu" else CARD_TEXTS
    cost = segment_cost(machine.device, TRANSFORMER_SEGMENT_COST)

    @torch.inference_mode()
    def read(chosen: slice) -> npt.NDArray[np.float32]:
        ids, lengths = texts.gather(every[firsts[chosen]])
        order = np.argsort(lengths, kind="stable")
        ends = np.cumsum(lengths, dtype=np.int64)
        reduced = np.empty((len(order), module.reduction_size), np.float32)
        for start in range(0, len(order), at_once):
            rows = order[start : start + at_once]
            pieces = np.concatenate([ids[ends[row] - lengths[row] : ends[row]] for row in rows])
            batch = pack(pieces, lengths[rows], module.padding_id, cost)
            with machine.autocast():
                r = module.reduce(move(batch, machine.device))
            reduced[rows] = r.float().cpu().numpy()
        return reduced

    vectors = vectors_once(path, len(hashes), read, "Reading the texts", display)
    save_array(kept, hashes)
    return FrozenTexts(hashes, vectors)
