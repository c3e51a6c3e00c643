"""The Typer application: the list of verbs.

`--help` imports no verb's file, a verb only its own, so that every start is fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

import rejoinder
from rejoinder.cli.shell import Command, Group, guarded

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Replies": {
        "index.index": "Build, change, tune and check indexes of replies",
        "replies.verbs.reply": "Find the best replies to a conversation",
        "replies.verbs.chat": "Chat with the replies of an index",
        "learning.learn": "Learn from chats and feedback what replies answer",
        "learning.feedback": "Show, export or delete feedback on replies",
        "learning.report": "Report how often replies are taken, and what is missing",
        "calibrate.calibrate": "Learn how probable it is that a reply is right",
        "learning.mine": "Find canned replies in old chats",
    },
    "Serve": {
        "serve.serve": "Answer over HTTP, with a page",
        "serve.desk": "Suggest replies as notes in a help desk",
        "serve.mcp": "Offer an index to assistants (MCP)",
    },
    "Data": {
        "data.data": "Build a folder of examples from conversations",
    },
    "Models": {
        "train.train": "Train a model, or continue a run",
        "evaluate.evaluate": "Measure rankers with recall and MRR",
        "intents.intents": "Train and measure intent classifiers",
        "export.export": "Write a model in another format",
        "export.join": "Join two models into one",
        "listing.verbs.listing": "List models, recipes, corpora or formats",
        "doctor.doctor": "Show versions, features and advice",
    },
    "Lab": {
        "lab.verbs.lab": "Run the papers' tables, ablations, grids and plots",
    },
}
"""All verbs, as `file.function`, with their summaries, in the order of the help."""
_NAMES = {"listing.verbs.listing": "list"}  # which is a function of Python


class _Verbs(Mapping[str, Any]):
    """The commands of all verbs by name, each made when it is asked for."""

    def __init__(self) -> None:
        self._summaries = {
            verb: summary for verbs in SECTIONS.values() for verb, summary in verbs.items()
        }
        self._places = {name_of(verb): verb for verb in self._summaries}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _make(self, name: str) -> Any:
        file, _, function = self._places[name].rpartition(".")
        verb = getattr(importlib.import_module(f"rejoinder.cli.{file}"), function)
        if isinstance(verb, typer.Typer):
            return typer.main.get_group(verb)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        summary = self._summaries[self._places[name]]
        alone.command(cls=Command, short_help=summary)(guarded(verb))
        return typer.main.get_command(alone)


class Verbs(Group):
    """The verbs, whose help has a section for each kind."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commands: Any = _Verbs()

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs by section, so that all fit on a screen, and no options before them."""
        formatter.write("\n")
        for title, verbs in SECTIONS.items():
            formatter.write(f"{title}\n")
            for verb, summary in verbs.items():
                formatter.write(f"  {name_of(verb):10} {summary}\n")
        names = [max(parameter.opts, key=len) for parameter in self.get_params(ctx)]
        formatter.write(f"Options: {', '.join(names)}\n")


def name_of(verb: str) -> str:
    """Return what the command calls a verb of `SECTIONS`."""
    return _NAMES.get(verb, verb.rpartition(".")[2])


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
