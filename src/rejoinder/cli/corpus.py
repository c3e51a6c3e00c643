"""`rejoinder corpus`: build a pretraining corpus out of many sources."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rejoinder.cli.shell import emit
from rejoinder.errors import InputError
from rejoinder.progress import track

if TYPE_CHECKING:
    from rejoinder.corpora.pretraining.plan import CorpusPlan


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
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build training and validation examples and a test for each source; nothing that is evaluated is trained on.

    Example: rejoinder corpus recipes/corpus/open.toml data/open -o corpus --evaluation data/eval
    """
    from rejoinder.corpora.pretraining.build import build_corpus, markdown, source_files
    from rejoinder.corpora.pretraining.plan import load_corpus_plan

    plan = load_corpus_plan(recipe)
    if where is not None:
        if output is not None or evaluation is not None:
            raise InputError("--where builds nothing; leave out --output and --evaluation")
        _show_places(plan, inputs, where, as_json)
        return
    if output is None:
        raise InputError("give the folder for the corpus with -o DIR, or a file of conversations with --where FILE")
    if evaluation is not None and no_evaluation:
        raise InputError("--evaluation and --no-evaluation exclude each other; give one")
    if plan.evaluation and evaluation is None and not no_evaluation:
        names = ", ".join(each.name for each in plan.evaluation)
        raise InputError(
            f"{recipe} checks for leaks of {names}; give their folder with --evaluation DIR, or leave them out with "
            "--no-evaluation"
        )
    size = 2 * sum(file.stat().st_size for file in source_files(plan, inputs))
    with track(f"building {output}", size, "bytes") as advance:
        counts = build_corpus(plan, inputs, output, evaluation=evaluation, progress=advance, overwrite=overwrite)
    result = {"output": str(output), **counts}
    emit(result, as_json, lambda result: f"{markdown(result)}\ncorpus: {result['output']}")


def _show_places(plan: CorpusPlan, inputs: Path, where: Path, as_json: bool) -> None:
    """Print where the corpus has each conversation of a file."""
    from rejoinder.corpora.pretraining.build import find_dialogues, source_files

    with track("reading the sources", sum(file.stat().st_size for file in source_files(plan, inputs)), "bytes") as go:
        found = find_dialogues(plan, inputs, where, progress=go)
    held = sum(each.held_out for each in found)
    lines = [f"{each.split or ('left out' if each.sources else 'no source'):9}  {each.id}" for each in found]
    lines.append(f"held out (test, left out): {held:,} of {len(found):,} conversations")
    rows = [{**asdict(each), "held_out": each.held_out} for each in found]
    emit({"conversations": rows}, as_json, lambda _: "\n".join(lines))
