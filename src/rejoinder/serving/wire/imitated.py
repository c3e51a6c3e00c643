"""Optional fields of the APIs that are imitated: obeyed, or ignored with a note in the answer.

A field that is null is absent. docs/serving.md lists all fields; a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rejoinder.errors import InputError, shown
from rejoinder.serving.wire.token_arrays import decode_tokens, is_token_array

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ignored:
    """A field that changes nothing, unless the server does what it says anyway."""

    apis: str
    note: str
    as_done: tuple[Any, ...] = ()  # values that say what is done anyway: no note


@dataclass(frozen=True, slots=True)
class Renamed:
    """A field that another one stands for, with the values that differ."""

    apis: str
    name: str
    values: Mapping[Any, Any] | None = None  # None: the value as it is


_TRUNCATED = "a text is read as far as the model reads"
_CUT = (True, "END", "end", "auto")
_TASKS = {
    "retrieval.query": "query",
    "retrieval.passage": "document",
    "nl2code.query": "query",
    "nl2code.passage": "document",
    "text-matching": "query",
    "classification": "query",
    "separation": "query",
}
_SIDES = {
    "query": "query",
    "document": "document",
    "search_query": "query",
    "search_document": "document",
    "passage": "document",
    "classification": "query",
    "clustering": "query",
}

EMBEDDINGS: dict[str, Ignored | Renamed] = {
    "input_type": Renamed("Cohere, Voyage, LiteLLM", "input_type", _SIDES),
    "task": Renamed("Jina", "input_type", _TASKS),
    "output_dimension": Renamed("Voyage", "dimensions"),
    "embedding_type": Renamed("Jina", "encoding_format", {"float": "float", "base64": "base64"}),
    "output_dtype": Renamed("Voyage", "encoding_format", {"float": "float"}),
    "normalized": Ignored("Jina", "vectors are as the model gives them"),
    "normalize": Ignored("TEI", "vectors are as the model gives them"),
    "truncation": Ignored("Voyage", _TRUNCATED, _CUT),
    "truncate": Ignored("Jina, TEI", _TRUNCATED, _CUT),
    "truncation_direction": Ignored("TEI", _TRUNCATED, ("Right", "right")),
    "truncate_prompt_tokens": Ignored("vLLM", _TRUNCATED, (-1,)),
    "late_chunking": Ignored("Jina", "each text is encoded by itself", (False,)),
    "add_special_tokens": Ignored("vLLM", "tokens are the model's own", (True,)),
    "priority": Ignored("vLLM", "requests are answered in their order", (0,)),
}
RERANK: dict[str, Ignored | Renamed] = {
    "top_k": Renamed("Voyage", "top_n"),
    "max_tokens_per_doc": Ignored("Cohere v2, LiteLLM", _TRUNCATED),
    "max_chunks_per_doc": Ignored("Cohere v1, LiteLLM", _TRUNCATED),
    "truncation": Ignored("Jina, Voyage", _TRUNCATED, _CUT),
    "truncate": Ignored("TEI", _TRUNCATED, _CUT),
    "truncate_prompt_tokens": Ignored("vLLM", _TRUNCATED, (-1,)),
    "raw_scores": Ignored("TEI", "scores are as the model gives them", (True,)),
    "return_embeddings": Ignored("Jina", "no vectors are returned", (False,)),
    "priority": Ignored("Cohere v2, vLLM", "requests are answered in their order", (0,)),
}


def read_fields(body: object, fields: Mapping[str, Ignored | Renamed]) -> tuple[object, list[str]]:
    """Return a body without what other APIs have besides, and notes on what was ignored.

    Raises:
        InputError: a field has a value that cannot be obeyed.
    """
    if not isinstance(body, dict):
        return body, []
    read: Body = {}
    notes = []
    for name, value in body.items():
        field = fields.get(name)
        if value is None:
            continue
        if field is None:
            read.setdefault(name, value)
        elif isinstance(field, Renamed):
            read[field.name] = _renamed(name, value, field)
        elif value not in field.as_done:
            notes.append(f"{name} is ignored: {field.note}")
    return read, notes


def _renamed(name: str, value: Any, field: Renamed) -> Any:
    if field.values is None:
        return value
    if not isinstance(value, str) or value not in field.values:
        raise InputError(f"{name} is {shown(value)}; it is one of {', '.join(field.values)}")
    return field.values[value]


def read_embeddings(body: object) -> tuple[object, list[str]]:
    """Return the body of a request for embeddings; token arrays are decoded."""
    read, notes = read_fields(body, EMBEDDINGS)
    if isinstance(read, dict) and is_token_array(read.get("input")):
        read["input"] = decode_tokens(read["input"])
        notes.append("input was decoded from tokens of cl100k_base")
    return read, notes


def read_rerank(body: object) -> tuple[object, list[str]]:
    """Return the body of a request to order documents."""
    return read_fields(body, RERANK)


def document_text(document: Any, fields: list[str]) -> str:
    """Return what is ranked of a document: a text, its `text`, or those of its fields.

    Raises:
        InputError: it has none of them.
    """
    if isinstance(document, str):
        return document
    texts = [document[name] for name in fields if isinstance(document.get(name), str)]
    if not fields and isinstance(document.get("text"), str):
        texts = [document["text"]]
    if not texts:
        wanted = ", ".join(fields) or "text"
        raise InputError(
            f"a document has the fields {', '.join(map(str, document))[:100] or 'none'}; it needs "
            f"{wanted}, or name others as rank_fields"
        )
    return "\n".join(filter(str.strip, texts))
