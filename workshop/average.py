"""Average of a model's weights and those of a model trained further from it.

Run `python -m workshop.average FIRST SECOND -o MODEL`. Fine-tuning wins on what it sees and loses
elsewhere; between the two sets of weights most of the gain is there and little of the loss
(Wortsman et al. 2022, "Robust fine-tuning of zero-shot models", section 2). What no weight depends
on, such as how a history is read, is as in SECOND.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from rejoinder.cli.shell import guarded
from rejoinder.encoders import folders, persistence
from rejoinder.errors import InputError

MIDDLE = 0.5
"""Share of the second model, if nothing else is said: no figure of any test chose it."""


def average(first: Path, second: Path, share: float, output: Path) -> None:
    """Write the model folder of a weighted mean.

    It is (1 - share) of the first model's weights and `share` of the second's.

    Raises:
        InputError: a folder is not a model, the two differ in structure or vocabulary, or the share
            is not within 0 to 1.
    """
    if not 0 <= share <= 1:
        raise InputError(
            f"--share {share} is not allowed; give 0 (the first model) to 1 (the second)"
        )
    before, old_tokenizer, _ = persistence.load_module(folders.find(first))
    after, tokenizer, config = persistence.load_module(folders.find(second))
    shapes = [
        {name: tuple(p.shape) for name, p in module.named_parameters()}
        for module in (before, after)
    ]
    if shapes[0] != shapes[1] or old_tokenizer.fingerprint != tokenizer.fingerprint:
        raise InputError(
            f"{second} was not trained from {first}: their structures or vocabularies differ"
        )
    old = dict(before.named_parameters())
    with torch.no_grad():
        for name, parameter in after.named_parameters():
            parameter.mul_(share).add_(old[name], alpha=1 - share)
    card = (
        "# Average\n\n"
        f"{1 - share:g} of `{first.name}` and {share:g} of `{second.name}`, weight by weight.\n"
    )
    persistence.save(output, after, tokenizer, max_length=config["max_length"], card=card)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workshop.average",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("first", type=Path, help="model folder")
    parser.add_argument("second", type=Path, help="model folder, trained from the first")
    parser.add_argument("-o", "--output", type=Path, required=True, help="model folder to write")
    parser.add_argument(
        "--share", type=float, default=MIDDLE, help="of the second model, 0 to 1 (%(default)s)"
    )
    return parser.parse_args(words)


def main() -> None:
    """Run from the shell."""
    options = arguments()
    average(options.first, options.second, options.share, options.output)
    print(options.output)


if __name__ == "__main__":
    guarded(main)()
