"""A checkpoint with the deviation of another's outputs.

Run `python -m workshop.match_deviation CHECKPOINT -o SCALED`. POLY, section 5.3. Own weights are
fine-tuned at the rates that were found for BERT, whose outputs are smaller than those of a
transformer pretrained here. Weight and bias of the last layer norm are multiplied by the ratio of
the two standard deviations, over all tokens of the same conversations.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from rejoinder.cli.shell import guarded
from rejoinder.conversations import Conversation
from rejoinder.corpora.forms.examples import read_examples
from rejoinder.encoders.export.checkpoints import (
    find_checkpoint,
    load_checkpoint,
    read_shape,
    save_checkpoint,
)
from rejoinder.errors import InputError
from rejoinder.networks.packing import pack
from rejoinder.networks.transformer import DialogueShape

BERT = "google-bert/bert-base-uncased"
CONTEXT = 360  # tokens of a conversation, as in fine-tuning
EXAMPLES = 500


@torch.inference_mode()
def deviation(checkpoint: Path, contexts: Sequence[Conversation]) -> float:
    """Return the standard deviation of a checkpoint's numbers for tokens of conversations."""
    shape = read_shape(checkpoint)
    module, tokenizer = load_checkpoint(checkpoint)
    module.eval()
    values = {**dataclasses.asdict(shape), "context_length": min(CONTEXT, shape.positions)}
    ids, lengths = (
        DialogueShape(**values).dialogue(tokenizer, max_length=shape.positions).contexts(contexts)
    )
    texts = np.split(ids, np.cumsum(lengths)[:-1])
    # without padding
    outputs = [module(pack(text, np.array([len(text)]), tokenizer.padding_id)) for text in texts]
    return float(torch.cat(outputs).double().std())


def match(
    checkpoint: Path, like: Path, contexts: Sequence[Conversation], output: Path
) -> tuple[float, float]:
    """Write the checkpoint with its last layer norm scaled; return both deviations, its own before.

    Raises:
        InputError: a folder is not a checkpoint, or there is no conversation to measure with.
    """
    if not contexts:
        raise InputError("no conversations to measure with; give a folder of examples (--data)")
    own = deviation(checkpoint, contexts)
    wanted = deviation(like, contexts)
    module, tokenizer = load_checkpoint(checkpoint)
    last = module.get_submodule(f"blocks.{len(module.blocks) - 1}.feed_forward_norm")
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.mul_(wanted / own)
    save_checkpoint(output, module, read_shape(checkpoint), tokenizer)
    return own, wanted


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workshop.match_deviation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "checkpoint", type=Path, help="folder that `rejoinder export --to transformers` wrote"
    )
    parser.add_argument(
        "--like", default=BERT, help="checkpoint whose deviation is wanted (%(default)s)"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of examples to measure with"
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=EXAMPLES,
        help="training contexts that are read (%(default)s)",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    return parser.parse_args(words)


def main() -> None:
    """Run from the shell."""
    options = arguments()
    read = itertools.islice(read_examples(options.data, "train"), options.examples)
    contexts = [example.context for example in read]
    own, wanted = match(
        find_checkpoint(options.checkpoint), find_checkpoint(options.like), contexts, options.output
    )
    ratio = wanted / own
    print(
        f"deviation {own:.4f}, of {options.like} {wanted:.4f};"
        f" last layer norm times {ratio:.4f}: {options.output}"
    )


if __name__ == "__main__":
    guarded(main)()
