"""`rejoinder corpus`: build a pretraining corpus out of many sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import track

if TYPE_CHECKING:
    from rejoinder.corpora.pretraining.recipe import CorpusRecipe


def corpus(
    recipe: Annotated[Path, typer.Argument(help="Sources, filters and evaluation sets: recipes/corpus/*.toml.")],
    inputs: Annotated[Path, typer.Argument(metavar="INPUT_DIR", help="Folder of the sources' files.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Folder for the corpus.")
    ] = None,
    where: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Build nothing; tell which conversations of a file are held out."),
    ] = None,
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
    if where is not None:
        if output is not None or evaluation is not None:
            raise InputError("--where builds nothing; leave out --output and --evaluation")
        _tell(wanted, inputs, where, as_json)
        return
    if output is None:
        raise InputError("give the folder for the corpus with -o DIR, or a file of conversations with --where FILE")
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


def _tell(recipe: CorpusRecipe, inputs: Path, where: Path, as_json: bool) -> None:
    """Print where the corpus has each conversation of a file."""
    from rejoinder.corpora.pretraining.build import find_dialogues, source_files

    with track("reading the sources", sum(file.stat().st_size for file in source_files(recipe, inputs)), "bytes") as go:
        found = find_dialogues(recipe, inputs, where, progress=go)
    rows = [{**asdict(each), "held_out": each.held_out} for each in found]

    def text(_: Mapping[str, Any]) -> str:
        lines = [f"{each.split or ('left out' if each.sources else 'no source'):9}  {each.id}" for each in found]
        held = sum(each.held_out for each in found)
        return "\n".join([*lines, f"held out (test, left out): {held:,} of {len(found):,} conversations"])

    emit({"conversations": rows}, as_json, text)
