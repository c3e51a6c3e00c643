"""One text at a time, as a chat needs it: ConveRT beside MiniLM, both in 8 bits.

They take turns in one run. All texts have the same number of ConveRT's subwords. Tokenisation
counts.

    python benchmarks/single_text.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from common import write_result
from encoding import SIZES, chat, race
from peers import minilm_forms
from rejoinder.encoders.torch import Encoder, build_module
from rejoinder.environment import keep_memory
from rejoinder.networks import pack
from rejoinder.networks.inference import pack_linears
from rejoinder.text.subwords import Subwords
from rejoinder.training.recipe_files import load_recipe

RECIPES = Path(__file__).parent.parent / "recipes"
TOKENS, TEXTS, REPETITIONS, THREADS = 14, 50, 9, 2
MINILM = "MiniLM onnxruntime int8"


def main() -> None:
    """Measure both sizes beside MiniLM, print the figures, write `results/single_text.json`."""
    torch.set_num_threads(THREADS)
    keep_memory()
    messages, subwords = chat()
    lengths = subwords.encode_ragged(messages)[1]
    texts = [text for text, length in zip(messages, lengths, strict=True) if length == TOKENS][
        :TEXTS
    ]
    programs = ours(subwords)
    with tempfile.TemporaryDirectory() as folder:
        programs[MINILM] = minilm_forms(Path(folder), THREADS, 1)[MINILM]
        seconds = race(programs, [[text] for text in texts], REPETITIONS)
    rows = {name: 1000 * value / len(texts) for name, value in seconds.items()}
    for name, milliseconds in rows.items():
        print(f"{name}: {milliseconds:.2f} ms, {milliseconds / rows[MINILM]:.2f} times {MINILM}")
    write_result("single_text", {"tokens": TOKENS, "threads": THREADS, "milliseconds": rows})


def ours(subwords: Subwords) -> dict[str, Callable[[Sequence[str]], object]]:
    """Both sizes: the ordinary way, Python calling each operation, and as users get it."""
    programs: dict[str, Callable[[Sequence[str]], object]] = {}
    for size, recipe in SIZES.items():
        module = build_module(
            load_recipe(RECIPES / recipe).model,
            max(subwords.rows, 32_477 if size == "paper" else 0),
        )
        pack_linears(module, "int8")
        encoder = Encoder(module, subwords, max_length=60, fingerprint="")
        programs[f"ConveRT {size} int8, not recorded"] = partial(encode_unrecorded, encoder)
        programs[f"ConveRT {size} int8"] = encoder.encode_responses
    return programs


@torch.inference_mode()
def encode_unrecorded(encoder: Encoder, texts: Sequence[str]) -> object:
    """Encode one text by the module itself."""
    ids, lengths = encoder.tokenizer.encode_ragged(texts, encoder.max_length)
    return encoder.module.encode(
        pack(ids, lengths, encoder.tokenizer.padding_id), "response"
    ).numpy()


if __name__ == "__main__":
    main()
