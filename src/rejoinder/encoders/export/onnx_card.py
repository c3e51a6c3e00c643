"""The README of an ONNX folder: what a program in any language does with the files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rejoinder.conversations import PERSONA
from rejoinder.encoders.conversation import INVERSE_TEMPERATURE
from rejoinder.encoders.onnx.folder import TRUNK_INT8

JOINED_ONNX_CARD = (
    "\n\n## ONNX\n\n`rejoinder.load` opens this folder without PyTorch too. The folders `first` and"
    " `second` hold the programs of the parts; onnx.json has their shares.\n"
)


def onnx_card(manifest: Mapping[str, Any], *, with_int8: bool = False) -> str:
    """Return the chapter of a README on an ONNX folder, from what its manifest says of it."""
    size = manifest["size"]
    history = manifest["history"]
    sides = ["context"]
    sides += ["opening"] if manifest.get("opening_weight") else []
    sides += ["response"] if history is None else ["response", "history"]
    files = ", ".join(f"{side}.onnx" for side in sides)
    lines = [
        "\n\n## ONNX\n\n`rejoinder.runtime.OnnxEncoder(folder)` opens this folder without PyTorch."
        " Its files, for other programs:\n\n"
        f"- trunk.onnx: `reduction`, float32 (n, {manifest['reduction_size']}),"
        " from `ids`, int64 (n, L),\n  and `mask`, bool (n, L), true for tokens.\n"
        f"- {files}: `vectors`, float32 (n, {size}),\n  of unit length, from `reduction`.\n"
    ]
    if with_int8:
        lines.append(
            f"- {TRUNK_INT8}: the same as trunk.onnx, with products of 8-bit integers: faster, and"
            " nearly equal.\n"
        )
    if history is not None and history["apart"]:
        lines.append(
            f"- pooled.onnx: `history`, float32 (n, {size}), from `context`, vectors of newest"
            " messages by\n  context.onnx (n rows), `messages`, vectors of all their earlier"
            " messages by history.onnx (m rows),\n  and `histories`, int64 (2, m): the row of"
            " the newest message to which each one belongs, and its slot,\n  0 for the one before"
            " the newest, 1 for the one before that.\n"
        )
    if history is not None:
        joined_text = "" if history["apart"] else ", that of its earlier messages joined,"
        lines.append(
            f"- combined.onnx: `vectors`, float32 (n, {size}), of conversations, from `context`,"
            f" the vector of the newest\n  message, and `history`{joined_text}"
            " (zeros without any).\n"
        )
    lines += [
        "- onnx.json: the maximum length in tokens, all counted; the part of a longer message that"
        " is left out (`cut`:\n  with `middle` the first and the last half of the tokens stay); the"
        " id of the padding; how many earlier\n  messages are read.\n",
        f"- vocabulary.json: {_VOCABULARIES[manifest['tokenizer']]}.\n\n",
        _steps(manifest),
        "A response's score is the dot product of its vector and the conversation's.\n",
        _persona_steps(history),
    ]
    return "".join(lines)


_VOCABULARIES = {
    "subwords": "for `rejoinder.text.subwords.Subwords`",
    "bpe": "its field `tokenizer` is a tokenizer.json of the library `tokenizers`, `special` names"
    " the tokens\n  that stand before (`start`) and after (`end`) a text",
}


def _steps(manifest: Mapping[str, Any]) -> str:
    """Return how a conversation is encoded with the files."""
    history = manifest["history"]
    if history is None:
        return "A conversation is its newest message: trunk.onnx, then context.onnx.\n\n"
    alone = "opening" if manifest.get("opening_weight") else ""
    first = (
        "A conversation of one message is that message by trunk.onnx and opening.onnx. Of a longer"
        " one,"
        if alone
        else "Of a conversation,"
    )
    earlier = (
        f"each of the {history['messages']} messages before it by trunk.onnx and history.onnx,"
        " these by pooled.onnx"
        if history["apart"]
        else f"the {history['messages']} messages before it, joined, by trunk.onnx and history.onnx"
    )
    return (
        f"{first} encode the newest message by trunk.onnx and context.onnx, {earlier}, and both by"
        " combined.onnx.\n\n"
    )


def _persona_steps(history: Mapping[str, Any] | None) -> str:
    """Return how what a persona states is read, and what it adds to scores."""
    if history is None or not history["persona_first"]:
        return ""
    read = (
        f"each by trunk.onnx and history.onnx in slot {history['messages']}"
        if history["apart"]
        else "before the others in the joined text"
    )
    text = (
        f"\nEarlier messages that begin with `{PERSONA}` say who answers. They are read without"
        f" these words, {read},\nhowever many there are, and are none of the"
        f" {history['messages']} messages.\n"
    )
    weight = history["persona_weight"]
    if not weight:
        return text
    return (
        f"{text}\nEach of these statements adds to scores besides. With its vector h by trunk.onnx"
        " and history.onnx, and y that\nof a response, p is the softmax over statements of"
        f" {INVERSE_TEMPERATURE:g} · {weight:g} · h·y, and {weight:g} · the sum of p · (h·y)"
        " is added.\n"
    )
