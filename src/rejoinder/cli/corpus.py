"""`rejoinder corpus`: build a pretraining corpus out of many sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import track


def corpus(
    recipe: Annotated[Path, typer.Argument(help="Sources, filters and evaluation sets: recipes/corpus/*.toml.")],
    inputs: Annotated[Path, typer.Argument(metavar="INPUT_DIR", help="Folder of the sources' files.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the corpus.")],
    evaluation: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the evaluation sets that the recipe names.")
    ] = None,
    no_evaluation: Annotated[
        bool, typer.Option("--no-evaluation", help="Check for leaks of the held-out tests alone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build training and validation examples and a test for each source; nothing that is evaluated is trained on.

    Example: rejoinder corpus recipes/corpus/open.toml data/open -o corpus --evaluation data/eval
    """
    from rejoinder.corpora.pretraining.build import build_corpus, source_files
    from rejoinder.corpora.pretraining.counts import markdown
    from rejoinder.corpora.pretraining.recipe import load_corpus_recipe

    wanted = load_corpus_recipe(recipe)
    if evaluation is not None and no_evaluation:
        raise InputError("--evaluation and --no-evaluation exclude each other; give one")
    if wanted.evaluation and evaluation is None and not no_evaluation:
        names = ", ".join(each.name for each in wanted.evaluation)
        raise InputError(
            f"{recipe} checks for leaks of {names}; give their folder with --evaluation DIR, or leave them out with "
            "--no-evaluation"
        )
    size = 2 * sum(file.stat().st_size for file in source_files(wanted, inputs))
    with track(f"building {output}", size, "bytes") as advance:
        counts = build_corpus(wanted, inputs, output, evaluation=evaluation, progress=advance)

    def text(result: Mapping[str, Any]) -> str:
        return f"{markdown(result)}\ncorpus: {result['output']}"

    emit({"output": str(output), **counts}, as_json, text)
