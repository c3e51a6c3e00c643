"""The Typer application: the list of verbs. They import what is heavy (torch, pyarrow) inside: `--help` is fast."""

from __future__ import annotations

from typing import Annotated

import typer

import rejoinder
from rejoinder.cli.calibrate import calibrate
from rejoinder.cli.data import corpora, corpus, data
from rejoinder.cli.doctor import doctor
from rejoinder.cli.evaluate import evaluate, plot, table
from rejoinder.cli.export import export, models
from rejoinder.cli.index import index
from rejoinder.cli.intents import intents
from rejoinder.cli.join import join
from rejoinder.cli.results import results
from rejoinder.cli.retrieval import chat, reply
from rejoinder.cli.serve import serve
from rejoinder.cli.shell import Command, guarded
from rejoinder.cli.train import ablate, recipes, tokenise, train

VERBS = (data, corpora, corpus, tokenise, train, evaluate, ablate, table, plot, results, calibrate, reply, chat, serve,
         export, join, models, recipes, doctor)  # fmt: skip

app = typer.Typer(
    name="rejoinder",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Example: rejoinder data chitchat -o conversations, then rejoinder VERB --help. "
    "Exit codes: 0 success, 2 bad input, 130 interrupted, 1 anything else. REJOINDER_DEBUG=1 shows tracebacks.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rejoinder {rejoinder.__version__}")
        raise typer.Exit


@app.callback()
def rejoinder_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Conversational response selection: train, evaluate, index and use models that pick the best reply."""


for _verb in VERBS:
    app.command(cls=Command)(guarded(_verb))
app.add_typer(index)
app.add_typer(intents)
