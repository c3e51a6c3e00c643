"""The Typer application: the list of verbs.

The verbs import torch and pyarrow only when they run, so that `--help` is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import rejoinder
from rejoinder.cli.calibrate import calibrate
from rejoinder.cli.data import corpora, data, formats
from rejoinder.cli.doctor import doctor
from rejoinder.cli.evaluate import evaluate
from rejoinder.cli.export import export, join, models
from rejoinder.cli.index import index
from rejoinder.cli.intents import intents
from rejoinder.cli.lab import lab
from rejoinder.cli.learning import feedback, learn, mine, report
from rejoinder.cli.retrieval import chat, reply
from rejoinder.cli.serve import desk, mcp, serve
from rejoinder.cli.shell import Command, guarded
from rejoinder.cli.train import recipes, train

SECTIONS: Mapping[str, Mapping[str, Callable[..., None] | typer.Typer]] = {
    "Replies": {
        "Build, change, tune and check indexes of replies": index,
        "Find the best replies to a conversation": reply,
        "Chat with the replies of an index": chat,
        "Learn from chats and feedback what replies answer": learn,
        "Show, export or delete feedback on replies": feedback,
        "Report how often replies are taken, and what is missing": report,
        "Learn how probable it is that a reply is right": calibrate,
        "Find canned replies in old chats": mine,
    },
    "Serve": {
        "Answer over HTTP, with a page": serve,
        "Suggest replies as notes in a help desk": desk,
        "Offer an index to assistants (MCP)": mcp,
    },
    "Data": {
        "Build a folder of examples from conversations": data,
        "List the corpora that `data` reads": corpora,
        "List the formats of replies and chats": formats,
    },
    "Models": {
        "Train a model, or continue a run": train,
        "Measure rankers with recall and MRR": evaluate,
        "Train and measure intent classifiers": intents,
        "Write a model in another format": export,
        "Join two models into one": join,
        "List models": models,
        "List recipes": recipes,
        "Show versions, features and advice": doctor,
    },
    "Lab": {
        "Run the papers' tables, ablations, grids and plots": lab,
    },
}
"""All verbs with their summaries, in the order of the help."""


class Verbs(TyperGroup):
    """The verbs, whose help has a section for each kind."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs by section, so that all fit on a screen, and no options before them."""
        formatter.write("\n")
        for title, verbs in SECTIONS.items():
            formatter.write(f"{title}\n")
            for summary, verb in verbs.items():
                formatter.write(f"  {name_of(verb):10} {summary}\n")
        names = [max(parameter.opts, key=len) for parameter in self.get_params(ctx)]
        formatter.write(f"Options: {', '.join(names)}\n")


def name_of(verb: Callable[..., None] | typer.Typer) -> str:
    """Return what the command calls a verb."""
    if isinstance(verb, typer.Typer):
        return str(verb.info.name)
    return verb.__name__


app = typer.Typer(
    name="rejoinder",
    cls=Verbs,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Example: rejoinder index build --help",
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


for _verbs in SECTIONS.values():
    for _summary, _verb in _verbs.items():
        if isinstance(_verb, typer.Typer):
            app.add_typer(_verb)
        else:
            app.command(cls=Command, short_help=_summary)(guarded(_verb))
