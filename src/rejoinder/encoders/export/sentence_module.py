"""A trained model in the library sentence-transformers: its folder, and its module.

The library finds this class by the `type` in the folder's modules.json. No code is taken from the
folder, but it asks for `trust_remote_code` for every class that is not its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from rejoinder.conversations import read_contexts
from rejoinder.encoders import folders, persistence
from rejoinder.encoders.bundled import WEIGHT_FILES
from rejoinder.encoders.export import folder as export
from rejoinder.encoders.families import family_of
from rejoinder.errors import InputError
from rejoinder.files import atomic_folder, follow_umask
from rejoinder.folder_kinds import Kind, check_replaceable
from rejoinder.json_parsing import parse_json
from rejoinder.networks.dual import SharedTrunk
from rejoinder.networks.packing import rectangle
from rejoinder.text.tokenizer import Ids, Tokenizer, encode_messages

# what a text is encoded as where nothing says it
PlainSide: TypeAlias = Literal["context", "response"]
SETTINGS = "sentence_module.json"
PROMPTS = {"query": "\x02query\x03", "document": "\x02document\x03"}
"""Prompts that stand for a side: of `prompt_name` the library tells a module the text alone."""
_TASK_OF_PROMPT = {prompt: task for task, prompt in PROMPTS.items()}
TASKS: Mapping[str, PlainSide] = {"query": "context", "document": "response"}
"""The sides by what sentence-transformers calls them: `encode_query` and `encode_document`."""


def check_side(side: Any) -> PlainSide:
    """Return the side; an unknown one is an InputError."""
    if side not in get_args(PlainSide):
        raise InputError(f"side {side!r} is unknown; allowed are {', '.join(get_args(PlainSide))}")
    return side


class SentenceModule(nn.Module):
    """The only module of such a `SentenceTransformer`.

    `encode_query` encodes contexts, `encode_document` responses, `encode` what `side` says. A
    context is a text, or a list of messages, oldest first, each {"role": ..., "content": ...}.
    `network` can be moved, trained and saved.
    """

    save_in_root = True
    forward_kwargs = frozenset({"task"})
    modalities = ("text", "message")

    def __init__(
        self,
        network: SharedTrunk,
        tokenizer: Tokenizer,
        max_seq_length: int,
        side: PlainSide = "context",
    ) -> None:
        super().__init__()
        self.network: Any = network
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.side: PlainSide = check_side(side)

    def get_embedding_dimension(self) -> int:
        """Size d of the vectors."""
        return self.network.output_size

    def preprocess(
        self,
        inputs: Sequence[Any],
        prompt: str | None = None,
        task: str | None = None,
        max_length: int | None = None,
    ) -> dict[str, Any]:
        """Turn n texts or conversations into token ids for a task.

        The prompt comes before each newest message.

        Returns:
            `input_ids` and `attention_mask`, int64 (n, L); of contexts of a multi-context model
            also `history_ids` and `history_mask` (n, M); and the task, if one was given.
        """
        if prompt in _TASK_OF_PROMPT:  # `encode(prompt_name=...)`, which says no task
            task = task or _TASK_OF_PROMPT[prompt]
            prompt = None
        side = self._side_of(task)
        contexts = read_contexts(
            [[item] if isinstance(item, str | Mapping) else item for item in inputs]
        )
        if side == "response" and any(len(context) > 1 for context in contexts):
            raise InputError("a response is one text, not a conversation of several messages")
        longest = max_length or self.max_seq_length
        texts = [(prompt or "") + context[-1] for context in contexts]
        ids, lengths = encode_messages(self.tokenizer, texts, longest)
        features = self._ids(ids, lengths, "input_ids", "attention_mask")
        history = self.network.history
        if side == "context" and history is not None and not history.apart:
            joined = [history.join(context) for context in contexts]
            ids, lengths = self.tokenizer.encode_ragged(joined, longest)
            features |= self._ids(ids, lengths, "history_ids", "history_mask")
        return features if task is None else {**features, "task": task}

    def forward(self, features: dict[str, Any], task: str | None = None) -> dict[str, Any]:
        """Add `sentence_embedding`, float32 (n, d) of unit rows, to what `preprocess` made."""
        texts = rectangle(features["input_ids"], features["attention_mask"].bool())
        side = self._side_of(task or features.get("task"))
        history = self.network.history
        if side == "context" and history is not None and history.apart:
            head = "opening" if self.network.opening_weight else "context"
            vectors = self.network.encode(texts, head)
        elif side == "context" and history is not None:
            mask = features["history_mask"].bool()
            histories = rectangle(features["history_ids"], mask)
            vectors = self.network.encode_conversations(texts, histories, mask.any(dim=1))
        else:
            vectors = self.network.encode(texts, side)
        return {**features, "sentence_embedding": vectors}

    def save(self, output_path: str, safe_serialization: bool = True) -> None:
        """Write network, vocabulary and settings into a folder, which is a model folder as well."""
        if not safe_serialization:
            raise InputError(
                "weights are written as safetensors only; leave safe_serialization at True"
            )
        folder = Path(output_path)
        persistence.write_files(
            folder, self.network, self.tokenizer, max_length=self.max_seq_length
        )
        weights = folders.weight_paths(folder, persistence.read_config(folder)[1])
        for path in (path for pattern in WEIGHT_FILES for path in folder.glob(pattern)):
            if path in weights:
                follow_umask(path)
            else:  # what stood there was in other files
                path.unlink()
        _write_json(folder / SETTINGS, {"side": self.side})

    @classmethod
    def load(cls, input_path: str) -> SentenceModule:
        """Open what `save` or `rejoinder export --to sentence-transformers` wrote."""
        folder = Path(input_path)
        network, tokenizer, config = persistence.load_as_validated(folder)
        return cls(network.eval(), tokenizer, config["max_length"], _read_side(folder))

    def _ids(self, ids: Ids, lengths: Ids, ids_name: str, mask_name: str) -> dict[str, Tensor]:
        mask = np.arange(max(1, int(lengths.max(initial=0)))) < lengths[:, None]
        padded = np.full(mask.shape, self.tokenizer.padding_id, dtype=np.int64)
        padded[mask] = ids
        return {ids_name: torch.from_numpy(padded), mask_name: torch.from_numpy(mask).long()}

    def _side_of(self, task: str | None) -> PlainSide:
        if task is None:
            return self.side
        if task not in TASKS:
            raise InputError(
                f"task {task!r} is unknown; allowed are {' (contexts), '.join(TASKS)} (responses)"
            )
        return TASKS[task]


def _read_side(folder: Path) -> PlainSide:
    try:
        return check_side(parse_json((folder / SETTINGS).read_text(encoding="utf-8"))["side"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder / SETTINGS} is missing or damaged ({error}); export the model again"
        ) from error


MODULES = "modules.json"
OPTIONS = "config_sentence_transformers.json"
MODULE = f"{SentenceModule.__module__}.{SentenceModule.__name__}"
FOLDER = Kind(
    "a sentence-transformers folder that we wrote",
    MODULES,
    lambda modules: modules[0]["type"] == MODULE,
    (*folders.FOLDER.files, MODULES, OPTIONS, SETTINGS),
)


def export_sentence_transformers(
    model: str | Path, output: str | Path, side: PlainSide = "context", *, overwrite: bool = False
) -> dict[str, Any]:
    """Write a folder for `SentenceTransformer(folder, trust_remote_code=True)` and describe it.

    Both sides are in it; `side` is what the library's plain `encode` takes texts as. Weights,
    vocabulary and configuration are copied, so the fingerprint stays and `rejoinder.load` opens the
    folder too.
    """
    side = check_side(side)
    check_replaceable(output, FOLDER, overwrite=overwrite)
    folder = folders.find(model)
    module, _, config = persistence.load_module(folder)  # refuses what is damaged
    is_alone = module.history is not None and module.history.apart
    if family_of(module.config).dialogue is not None and not is_alone:
        raise InputError(
            f"{folder} is of kind '{config['model']['kind']}',"
            " which does not read a conversation as newest message and one history;"
            " write the transformer inside with `export --to transformers`"
        )
    with atomic_folder(output, FOLDER, overwrite=overwrite) as part:
        for name in (folders.CONFIG, *config["files"]):
            shutil.copyfile(folder / name, part / name)
        _write_json(part / SETTINGS, {"side": side})
        _write_json(part / MODULES, [{"idx": 0, "name": "0", "path": "", "type": MODULE}])
        options = {
            "model_type": "SentenceTransformer",
            "similarity_fn_name": "cosine",
            "default_prompt_name": None,
        }
        _write_json(part / OPTIONS, {**options, "prompts": PROMPTS})
        card = export.read_card(folder) + _card(side, module.history is not None, is_alone)
        (part / folders.CARD).write_text(card, encoding="utf-8")
    return folders.describe(Path(output)) | {"side": side}


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _card(side: PlainSide, reads_history: bool, is_alone: bool) -> str:
    history = (
        "\n\nHere a context is its newest message alone; in `rejoinder` the model reads earlier"
        " ones too."
        if is_alone
        else "\n\nA context may be a list of messages, oldest first,"
        ' each `{"role": ..., "content": ...}`.'
    )
    return (
        "\n\n## sentence-transformers\n\n"
        "With `rejoinder` and `sentence-transformers` installed:\n```python\n"
        'model = SentenceTransformer("this folder", trust_remote_code=True)\n'
        "contexts, responses = model.encode_query([...]), model.encode_document([...])\n```\n"
        f"`encode` takes texts as {side}s."
        " The class of the model is imported from the package `rejoinder`;"
        " the library asks for `trust_remote_code` for every class that is not its own."
        f"{history if reads_history else ''}\n"
    )
