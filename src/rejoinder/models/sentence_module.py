"""A trained model as a module of the library sentence-transformers.

`SentenceTransformer(folder, trust_remote_code=True)` finds this class by the `type` in the folder's modules.json. It
needs nothing of that library: a module there is any network with `preprocess`, `forward`, `save` and `load`.
(sentence-transformers from 6.0 on asks for `trust_remote_code` for every class that is not its own, also where the
class comes from an installed package, as here: no code is taken from the folder.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from rejoinder.errors import InputError
from rejoinder.files import follow_umask, parse_json
from rejoinder.models import persistence
from rejoinder.models.convert import Convert
from rejoinder.models.encoder import newest_message
from rejoinder.models.multi_context import MultiContextConvert
from rejoinder.models.padded import encode_conversations, encode_padded, pad
from rejoinder.ranker import Context
from rejoinder.text.tokenizer import Tokenizer

PlainSide: TypeAlias = Literal["context", "response"]
"""What a text is encoded as where nothing says it."""

SETTINGS = "sentence_module.json"
TASKS: Mapping[str, PlainSide] = {"query": "context", "document": "response"}
"""The sides by what sentence-transformers calls them: `encode_query` and `encode_document`."""


def check_side(side: object) -> PlainSide:
    """The side, if there is such a one.

    Raises:
        InputError: there is not.
    """
    for known in get_args(PlainSide):
        if side == known:
            return known
    raise InputError(f"side {side!r} is unknown; allowed are {', '.join(get_args(PlainSide))}")


class SentenceModule(nn.Module):
    """The only module of such a `SentenceTransformer`.

    `encode_query` encodes contexts, `encode_document` responses, `encode` what `side` says. A context is a text, or a
    conversation as a list of messages, oldest first, each {"role": ..., "content": ...}. In the library's trainer,
    `router_mapping` says which column is which.

    Args:
        network: the dual encoder, not packed: it can be moved, trained and saved.
        tokenizer: its tokenizer.
        max_seq_length: longest text in tokens.
        side: what `encode` takes texts as.
    """

    save_in_root = True
    forward_kwargs = frozenset({"task"})
    modalities = ("text", "message")

    def __init__(
        self, network: Convert, tokenizer: Tokenizer, max_seq_length: int, side: PlainSide = "context"
    ) -> None:
        super().__init__()
        self.network, self.tokenizer = network, tokenizer
        self.max_seq_length = max_seq_length
        self.side: PlainSide = check_side(side)

    def get_embedding_dimension(self) -> int:
        """Size d of the vectors."""
        return self.network.output_size

    def get_sentence_embedding_dimension(self) -> int:
        """Size d of the vectors, by the library's older name for it."""
        return self.get_embedding_dimension()

    def preprocess(
        self,
        inputs: Sequence[Any],
        prompt: str | None = None,
        task: str | None = None,
        max_length: int | None = None,
    ) -> dict[str, Any]:
        """Texts or conversations to token ids.

        Args:
            inputs: n texts, or n conversations.
            prompt: put before each text; before the newest message of a conversation.
            task: "query" (contexts) or "document" (responses); None: `side`.
            max_length: longest text in tokens; None: `max_seq_length`.

        Returns:
            `input_ids` and `attention_mask`, int64 (n, L); of contexts of a multi-context model also `history_ids` and
            `history_mask` (n, M); and the task, if one was given.

        Raises:
            InputError: no such task, or an input is neither a text nor a conversation.
        """
        side = self._side_of(task)
        contexts = [_messages(given) for given in inputs]
        if side == "response" and any(len(context) > 1 for context in contexts):
            raise InputError("a response is one text, not a conversation of several messages")
        longest = max_length or self.max_seq_length
        texts = [(prompt or "") + newest_message(context) for context in contexts]
        features = self._ids(texts, longest, "input_ids", "attention_mask")
        history = self.network.history
        if side == "context" and history is not None:
            features |= self._ids([history.join(c) for c in contexts], longest, "history_ids", "history_mask")
        return features if task is None else {**features, "task": task}

    def tokenize(self, texts: Sequence[Any], task: str | None = None) -> dict[str, Any]:
        """`preprocess` by the library's older name for it."""
        return self.preprocess(texts, task=task)

    def forward(self, features: dict[str, Any], task: str | None = None) -> dict[str, Any]:
        """Add `sentence_embedding`, float32 (n, d), rows of unit length, to what `preprocess` made."""
        ids, mask = features["input_ids"], features["attention_mask"].bool()
        side = self._side_of(task or features.get("task"))
        if side == "context" and isinstance(self.network, MultiContextConvert):
            earlier = features["history_ids"], features["history_mask"].bool()
            vectors = encode_conversations(self.network, ids, mask, *earlier)
        else:
            vectors = encode_padded(self.network, ids, mask, side)
        return {**features, "sentence_embedding": vectors}

    def save(self, output_path: str, safe_serialization: bool = True) -> None:
        """Write network, vocabulary and settings into a folder: it is a model folder of ours as well.

        Raises:
            InputError: weights are asked for as pickle.
        """
        if not safe_serialization:
            raise InputError("weights are written as safetensors only; leave safe_serialization at True")
        folder = Path(output_path)
        persistence.write_files(folder, self.network, self.tokenizer, max_length=self.max_seq_length)
        follow_umask(folder / persistence.WEIGHTS)
        write_settings(folder, self.side)

    @classmethod
    def load(cls, input_path: str) -> SentenceModule:
        """Open what `save` or `rejoinder export --sentence-transformers` wrote."""
        folder = Path(input_path)
        network, tokenizer, config = persistence.load_as_validated(folder)
        return cls(network.eval(), tokenizer, config["max_length"], read_settings(folder))

    def _ids(self, texts: list[str], longest: int, ids_name: str, mask_name: str) -> dict[str, Tensor]:
        ids, mask = pad(self.tokenizer, texts, longest)
        return {ids_name: torch.from_numpy(ids), mask_name: torch.from_numpy(mask).long()}

    def _side_of(self, task: str | None) -> PlainSide:
        if task is None:
            return self.side
        if task not in TASKS:
            raise InputError(f"task {task!r} is unknown; allowed are {' (contexts), '.join(TASKS)} (responses)")
        return TASKS[task]


def _messages(given: Any) -> Context:
    """A text as a conversation of one message; a conversation as its texts."""
    if isinstance(given, str):
        return [given]
    turns = [given] if isinstance(given, Mapping) else given
    if isinstance(turns, Sequence) and turns:
        spoken = [turn["content"] for turn in turns if isinstance(turn, Mapping) and "content" in turn]
        texts = [text for text in spoken if isinstance(text, str)]
        if len(texts) == len(turns):
            return texts
    raise InputError(
        f'an input is a text, or a list of messages, oldest first, each {{"role": ..., "content": text}}; '
        f"given: {str(given)[:60]}"
    )


def write_settings(folder: Path, side: PlainSide) -> None:
    """Write what the model folder itself does not hold."""
    (folder / SETTINGS).write_text(json.dumps({"side": side}) + "\n", encoding="utf-8")


def read_settings(folder: Path) -> PlainSide:
    """The side that `encode` takes texts as.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        return check_side(parse_json((folder / SETTINGS).read_text(encoding="utf-8"))["side"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / SETTINGS} is missing or damaged ({error}); export the model again") from error
