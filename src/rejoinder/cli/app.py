"""The Typer application: the list of verbs.

The verbs import torch and pyarrow only when they run, so that `--help` is fast.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import rejoinder
from rejoinder.cli.data import corpora, data, formats
from rejoinder.cli.doctor import doctor
from rejoinder.cli.evaluate import evaluate, table
from rejoinder.cli.export import export, join, models
from rejoinder.cli.index import index
from rejoinder.cli.intents import intents
from rejoinder.cli.learning import feedback, learn, mine, report
from rejoinder.cli.pictures import calibrate, plot
from rejoinder.cli.retrieval import chat, reply
from rejoinder.cli.serve import desk, mcp, serve
from rejoinder.cli.shell import Command, guarded
from rejoinder.cli.train import ablate, recipes, tokenise, train
from rejoinder.errors import InputError

VERBS = (
    data,
    corpora,
    formats,
    tokenise,
    train,
    evaluate,
    ablate,
    table,
    plot,
    calibrate,
    mine,
    learn,
    feedback,
    report,
    reply,
    chat,
    serve,
    mcp,
    desk,
    export,
    join,
    models,
    recipes,
    doctor,
)
MOVED = {"corpus": "workshop.corpus", "results": "workshop.results"}


class Verbs(TyperGroup):
    """The verbs; for a removed verb, an error names the command that replaces it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that the arguments begin with, and the arguments after it."""
        verb, *rest = args
        if verb in MOVED:
            command = shlex.join(["python", "-m", MOVED[verb], *rest])
            raise InputError(f"{verb} is no longer a verb; in a clone of Rejoinder, run: {command}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="rejoinder",
    cls=Verbs,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=(
        "Example: rejoinder data chitchat -o conversations, then rejoinder VERB --help."
        " Exit codes: 0 success, 2 bad input, 130 interrupted, 1 anything else."
        " REJOINDER_DEBUG=1 shows tracebacks. REJOINDER_MODEL=FOLDER names the present path of the"
        " model of an index or classifier."
    ),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rejoinder {rejoinder.__version__}")
        raise typer.Exit


@app.callback()
def rejoinder_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Conversational response selection: train, evaluate, index and serve models."""


for _verb in VERBS:
    app.command(cls=Command)(guarded(_verb))
app.add_typer(index)
app.add_typer(intents)
