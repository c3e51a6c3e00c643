"""Build training and validation examples, and a test for each source, of many sources of dialogues.

    python -m workshop.corpus recipes/corpus/open.toml OPEN -o corpus --evaluation EVAL

Nothing that is evaluated is trained on: see workshop/corpus.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rejoinder.cli.shell import guarded
from rejoinder.errors import InputError
from rejoinder.progress import track
from workshop.corpus.build import build_corpus, markdown, source_files
from workshop.corpus.plan import load_corpus_plan


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workshop.corpus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "recipe", type=Path, help="sources, filters and evaluation sets: a TOML file"
    )
    parser.add_argument("inputs", type=Path, help="folder of the sources' files")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    checked = parser.add_mutually_exclusive_group()
    checked.add_argument("--evaluation", type=Path, help="folder of the recipe's evaluation sets")
    checked.add_argument(
        "--no-evaluation", action="store_true", help="check the held-out tests alone"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier corpus")
    return parser.parse_args(words)


def main() -> None:
    """Run from the shell."""
    options = arguments()
    plan = load_corpus_plan(options.recipe)
    if plan.evaluation and options.evaluation is None and not options.no_evaluation:
        names = ", ".join(each.name for each in plan.evaluation)
        raise InputError(
            f"{options.recipe} checks for leaks of {names};"
            " give their folder with --evaluation DIR, or --no-evaluation"
        )
    size = 2 * sum(file.stat().st_size for file in source_files(plan, options.inputs))
    with track(f"building {options.output}", size, "bytes") as advance:
        counts = build_corpus(
            plan,
            options.inputs,
            options.output,
            evaluation=options.evaluation,
            progress=advance,
            overwrite=options.overwrite,
        )
    print(f"{markdown(counts)}\ncorpus: {options.output}")


if __name__ == "__main__":
    guarded(main)()
