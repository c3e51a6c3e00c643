"""The commands in README, docs and recipes: the command line takes each, and those that build data or train run.

They run as they are written, on small files of the real formats (`raw_files`); trainings for two
steps, of tiny models.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from rejoinder.cli.start import main
from rejoinder.cli.app import app
from rejoinder.corpora.forms.examples import read_examples, write_examples
from rejoinder.corpora.registry.sources import CORPORA
from rejoinder.encoders.open import is_library
from rejoinder.encoders.sentence import SentenceEncoder
from rejoinder.lab.ablation_plan import load_plan
from rejoinder.lab.plan import load_table
from rejoinder.training.recipe_files import load_recipe
from tests.raw_files import write_files
from tests.training.tiny import write_data
from tests.training.transformers import OF_RECIPES, write_bi_encoder, write_checkpoint

ROOT = Path(__file__).parents[1]
PAGES = ("docs/*.md", "docs/results/*.md", "workshop/*.md")
DOCS = [path for pages in PAGES for path in sorted(ROOT.glob(pages))]
TEXTS = [ROOT / "README.md", *DOCS, *sorted((ROOT / "recipes").rglob("*.toml"))]
FILES = [
    path
    for path in TEXTS
    if path.suffix == ".toml" and path.parent.name not in ("corpus", "tables")
]
PLANS = [path for path in FILES if "row" in tomllib.loads(path.read_text(encoding="utf-8"))]
OF_PAPERS = [
    path for path in PLANS if not path.stem.endswith(("-small", "-quick", "hard-negatives"))
]
RECIPES = [path for path in FILES if path not in PLANS]
# those: training/test_recipe.py
FROM_NOTHING = [path for path in RECIPES if not path.stem.startswith("fine-tune-")]

STARTS = r"(?:\$ )?((?:torchrun .*? -m |python -m )?rejoinder(?: .*)?)"
FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(rejoinder (?:[^`]+))`")
REMARK = re.compile(r"\s+#\s.*")
BROKEN = re.compile(r"\\\n\s*")


@dataclass(frozen=True)
class Command:
    """A command that is documented: where, its words after `rejoinder`, and whether it is all there."""

    place: str
    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        return f"{self.place}: rejoinder {shlex.join(self.words)}"


def commands_of(path: Path) -> Iterator[Command]:
    """The commands of a document or of a recipe's comments, in their order."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        makes = re.findall(r'^make = "(rejoinder .*)"$', text, re.MULTILINE)
        text = "\n".join(line[1:] for line in text.splitlines() if line.startswith("#"))
        blocks = [
            line for line in BROKEN.sub("", text).splitlines() if line.startswith("   rejoinder ")
        ] + makes
    else:
        blocks = [
            line for block in FENCED.findall(text) for line in BROKEN.sub("", block).splitlines()
        ]
        text = FENCED.sub("", text)
    name = str(path.relative_to(ROOT))
    for line in blocks:
        if found := re.fullmatch(STARTS, REMARK.sub("", line.strip())):
            yield Command(name, words_of(found[1]), whole=True)
    for found in INLINE.findall(text):
        yield Command(name, words_of(" ".join(found.split())), whole=False)


def words_of(line: str) -> tuple[str, ...]:
    """The words after `rejoinder`, without marks that say "and so on" or "if you like"."""
    line = re.sub(r" \[-[^\]]*\]", "", line)
    words = shlex.split(line[line.index("rejoinder ") :])[1:] if " " in line else []
    plain = (word.removesuffix("...") for word in words)
    return tuple(word for word in plain if word and not word.startswith("$"))


APP = typer.main.get_command(app)
COMMANDS = [command for path in TEXTS for command in commands_of(path)]


def test_the_commands_are_found():
    whole = [command for command in COMMANDS if command.whole]
    assert len(whole) > 150
    assert len(COMMANDS) - len(whole) > 60
    assert {command.place for command in whole} >= {
        "README.md",
        "docs/data.md",
        "recipes/poly/bi.toml",
    }


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("start") / "bert", OF_RECIPES)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_command_line_takes_it(path, start, monkeypatch):
    monkeypatch.chdir(ROOT)
    faults = []
    for command in commands_of(path):
        try:
            check(command, start)
        except Exception as error:  # noqa: BLE001 (all faults are told at once)
            faults.append(f"{command}\n    {getattr(error, 'message', error)}")
    assert not faults, "\n".join(faults)


def check(command: Command, start: Path) -> None:
    """Refuse words that the command line refuses, recipes that are not there, settings that there are not."""
    verb: Any = APP
    words = list(command.words)
    while hasattr(verb, "commands") and words and words[0] in verb.commands:
        verb = verb.commands[words.pop(0)]
    mentioned = verb is APP and words and (words[0].isupper() or words[0].startswith("-"))
    assert not hasattr(verb, "commands") or not words or mentioned or words == ["--help"], words
    context = verb.context_class(verb, info_name=verb.name)
    # an option is mentioned
    more = [] if command.whole or not words or not words[-1].startswith("-") else ["VALUE"]
    given, *_ = verb.make_parser(context).parse_args(args=[*words, *more])
    if command.whole:
        verb.make_context(verb.name, list(words))
    for word in words:
        if re.fullmatch(r"recipes/[a-z0-9/-]+\.toml", word):
            assert Path(word).is_file(), f"there is no {word}"
    document = Path(str(given.get("recipe") or given.get("file") or ""))
    if document.is_file():
        settings = [
            *(given.get("settings") or []),
            *starts(document, start, bool(given.get("init"))),
        ]
        resolve(verb.name, document, tuple(settings))


@functools.cache  # several documents have the same command
def resolve(verb: str, document: Path, settings: tuple[str, ...]) -> None:
    """Read the recipe or plan of a command with its settings."""
    if verb == "table":
        load_table(document, settings)
    elif verb == "ablate":
        load_plan(document, settings)
    elif verb in ("train", "tokenise"):
        load_recipe(
            document,
            [setting for setting in settings if not setting.startswith("distillation.teacher")],
        )


def starts(document: Path, start: Path, init: bool = False) -> list[str]:
    """The settings that let a recipe start from what is here: the bundled model or the checkpoint."""
    read = tomllib.loads(document.read_text(encoding="utf-8"))
    if "recipe" in read:
        return starts(document.parent / read["recipe"], start)
    if "stage" not in read:
        return []
    taught = read.get("distillation", {}).get("encoder", "minilm")
    teacher = [] if is_library(taught) else ["distillation.encoder=convert-small"]
    if "transformer" in read.get("init", {}) or document.stem.endswith("-own"):
        return [f"init.transformer={start}", *teacher]
    of_heads = any("head" in stage.get("rates", {}) for stage in read["stage"])
    if of_heads or "anchor" in read.get("init", {}):
        return [f"init.model={write_bi_encoder(start)}", *teacher]
    needs = init or "kind" not in read.get("model", {})
    return [*(["init.model=convert-small"] if needs else []), *teacher]


# --- What runs
# ------------------------------------------------------------------------------

Run = Callable[..., str]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workplace")
    (folder / "recipes").symlink_to(ROOT / "recipes")
    write_files(folder)
    return folder


@pytest.fixture
def run(workplace, monkeypatch, capsys):
    """Run a command in the workplace, where it must end well; what it wrote to standard error."""
    monkeypatch.chdir(workplace)

    def running(*words: str, code: int = 0) -> str:
        spread = [
            name
            for word in words
            for name in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
        ]
        monkeypatch.setattr(sys, "argv", ["rejoinder", *spread])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr().err
        assert int(ended.value.code or 0) == code, f"{shlex.join(words)}\n{told}"
        return told

    return running


def data_commands() -> list[tuple[str, ...]]:
    """The commands that build data, but those for a cluster, and those whose inputs are other people's."""
    ours = ("README.md", "docs/corpora.md", "docs/data.md", "recipes/")
    found = (
        command.words for command in COMMANDS if command.whole and command.place.startswith(ours)
    )
    chosen = (
        words for words in found if words[0] == "data" and "--ray" not in words and "-o" in words
    )
    return [
        words
        for words in dict.fromkeys(chosen)
        if words[1] != "chitchat" and "FILE" not in " ".join(words)
    ]


def tiny(path: Path) -> list[str]:
    """The settings that let a recipe, or the rows of a plan, train two steps of a tiny model."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    if "recipe" in read:
        return tiny(path.parent / read["recipe"])
    kind, settings = (
        read.get("model", {}).get("kind", ""),
        ["compute.threads=1", "compute.device=cpu"],
    )
    settings += [
        f"vocabulary.{key}={SIZES[key]}" for key in read.get("vocabulary", {}) if key in SIZES
    ]
    settings += [f"model.{key}={size}" for key, size in MODELS.get(kind, {}).items()]
    # a letter is a token
    settings += ["model.context_length=40"] if "context_length" in read.get("model", {}) else []
    if read.get("validation", {}).get("examples") != 0:
        settings += ["validation.candidates=4", "validation.examples=12"]
    for number, stage in enumerate(read["stage"]):
        settings += [f"stage.{number}.steps=2", f"stage.{number}.batch_size=12"]
        settings += [f"stage.{number}.{key}={size}" for key, size in STAGE.items() if key in stage]
    return settings


CONVERT = {
    "embedding_size": 16,
    "head_size": 4,
    "feed_forward_size": 16,
    "feed_forward_2_size": 16,
    "output_size": 16,
}
MODELS = {
    "convert": CONVERT,
    "poly-convert": CONVERT,
    "ngram": {"embedding_size": 16, "hidden_size": 16, "output_size": 16},
    "masked-lm": {"hidden_size": 12, "blocks": 2, "heads": 2, "feed_forward_size": 16},
}
SIZES = {"minimum_count": 2, "target_size": 300, "bigrams": 200, "buckets": 50, "merges": 60}
STAGE = {"micro_batch": 8, "batch_tokens": 4000}


@pytest.fixture(scope="module")
def examples(workplace):
    """What DATA stands for where nothing is said of it."""
    folder = write_data(workplace / "examples")
    write_examples(read_examples(folder, "valid"), folder / "test-00000.parquet")
    return folder


def letters(texts: Sequence[str], _: object) -> np.ndarray:
    """Stand in for a sentence encoder."""
    return (
        np.array([[text.count(chr(code)) for code in range(97, 129)] for text in texts], np.float32)
        + 0.01
    )


def commands_to_run(path: Path, verb: str) -> list[tuple[str, ...]]:
    """The commands of a recipe's header with a verb; where it has none, the plain one."""
    verbs = tuple(verb.split())
    found = [
        command.words
        for command in commands_of(path)
        if command.whole and command.words[: len(verbs)] == verbs
    ]
    return found or [(*verbs, str(path.relative_to(ROOT)), "--data", "DATA", "-o", "RUN")]


def prepared(path: Path, workplace: Path, run: Run) -> None:
    for command in commands_of(path):
        if command.whole and command.words[0] == "data":
            built(command.words, workplace, run)


def filled(words: tuple[str, ...], path: Path, examples: Path, settings: list[str]) -> list[str]:
    """A command with places for DATA, RUN and DIR; data that its header does not make is the examples."""
    places = {
        "DATA": str(examples),
        "RUN": f"runs/{path.parent.name}-{path.stem}",
        "DIR": f"tables/{path.stem}",
    }
    named = [places.get(word, word) for word in words]
    models = [
        setting.removeprefix("init.model=")
        for setting in settings
        if setting.startswith("init.model=")
    ]
    instead = {
        "--data": str(examples),
        "--general": str(examples),
        "--init": models[0] if models else "convert-small",
    }
    named = [
        instead[before] if before in instead and not Path(word).exists() else word
        for before, word in itertools.pairwise(["", *named])
    ]
    return [*named, *(word for setting in settings for word in ("--set", setting))]


def some_fast(
    items: Sequence[Any], key: Callable[[Any], object], name: Callable[[Any], str]
) -> list[Any]:
    """The items as parameters; those after the first of a kind are slow tests."""
    first = {key(item): item for item in reversed(items)}
    return [
        pytest.param(
            item, id=name(item), marks=() if first[key(item)] is item else pytest.mark.slow
        )
        for item in items
    ]


def kind_of(path: Path) -> tuple[object, ...]:
    """What trainings have in common that run the same code: their kind of model, and what else the recipe has."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    stages = {str(stage.get("loss")) for stage in read["stage"]}
    others = {"init", "distillation", "quantization"} & set(read)
    return read.get("model", {}).get("kind", ""), *sorted(stages | others)


@pytest.mark.parametrize("path", some_fast(FROM_NOTHING, kind_of, lambda path: path.stem))
def test_a_recipe_trains_as_its_header_says(path, workplace, examples, start, run, monkeypatch):
    stand_in = SentenceEncoder("letters", letters)
    monkeypatch.setattr("rejoinder.encoders.open._open_library", lambda *_: stand_in)
    prepared(path, workplace, run)
    settings = [*tiny(path), *starts(path, start)]
    for words in commands_to_run(path, "train"):
        whole = filled(words, path, examples, settings)
        assert "lost their oldest messages" not in run(*whole)
        assert (workplace / whole[whole.index("-o") + 1] / "model" / "model.safetensors").is_file()
    for command in commands_of(path):
        if command.whole and command.words[0] in ("evaluate", "export"):
            run(*command.words, *(["--sample", "10"] if command.words[0] == "evaluate" else []))


def ablated(
    path: Path, workplace: Path, examples: Path, start: Path, run: Run, rows: list[str]
) -> None:
    prepared(path, workplace, run)
    for words in commands_to_run(path, "lab ablate"):
        whole = filled(words, path, examples, [*tiny(path), *starts(path, start)])
        run(
            *whole,
            "--sample",
            "10",
            "--candidates",
            "10",
            *(word for row in rows for word in ("--row", row)),
        )
        assert (workplace / whole[whole.index("-o") + 1] / "table.md").read_text().count("\n|") > 2


@pytest.mark.parametrize(
    "path", some_fast(OF_PAPERS, lambda path: path.parent, lambda path: path.stem)
)
def test_the_first_row_of_a_plan_trains(path, workplace, examples, start, run):
    ablated(
        path, workplace, examples, start, run, [tomllib.loads(path.read_text())["row"][0]["name"]]
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_all_rows_of_a_plan_train(path, workplace, examples, start, run):
    ablated(path, workplace, examples, start, run, [])


@pytest.mark.parametrize("kind", ["bi", "poly", "cross"])
def test_own_weights_are_trained_as_the_paper_does(kind, start):
    for name, optimizer in ((kind, "adamw"), (f"{kind}-own", "adamax")):
        (stage,) = load_recipe(
            ROOT / "recipes" / "poly" / f"{name}.toml", [f"init.transformer={start}"]
        ).stage
        assert (stage.optimizer.kind, "embedding" in stage.rates) == (
            optimizer,
            optimizer == "adamw",
        )


POLY = {"2": 5, "3-bi": 4, "3-cross": 4, "4": 3, "7": 4, "8": 20}


def test_every_figure_of_the_papers_tables_has_its_row():
    rows = {path.stem: len(tomllib.loads(path.read_text())["row"]) + 1 for path in PLANS}
    papers = {
        name: count
        for name, count in rows.items()
        if name.startswith("poly-table") and "small" not in name
    }
    assert papers == {f"poly-table{name}": count for name, count in POLY.items()}
    assert rows["poly-wikipedia"] == 4
    assert [rows[f"poly-first{start}"] for start in ("", "-own", "-books")] == [6, 6, 6]


def built(words: tuple[str, ...], folder: Path, run: Run) -> None:
    """Build the data of a command unless the same one has."""
    done = folder / f"{words[words.index('-o') + 1]}.built"
    done.parent.mkdir(exist_ok=True, parents=True)
    if not done.exists() or done.read_text() != str(words):
        # another document's, of that name
        shutil.rmtree(folder / words[words.index("-o") + 1], ignore_errors=True)
        run(*words)
        done.write_text(str(words))


@pytest.mark.parametrize("words", some_fast(data_commands(), lambda words: words[1], shlex.join))
def test_data_is_built(words, workplace, run):
    built(words, workplace, run)
    assert list((workplace / words[words.index("-o") + 1]).glob("*.parquet"))


def test_every_corpus_has_its_command():
    assert {words[1] for words in data_commands()} >= set(CORPORA) - {"chitchat"}


MAIN = ROOT / "recipes" / "tables" / "main.toml"
OF_POLY = ["bi-books", "poly-16-books", "poly-360-books", "cross-books", "poly-first-own"]


@pytest.mark.parametrize("row", OF_POLY)
def test_a_row_of_the_main_table_is_trained_and_ranked(row, workplace, start, run):
    """By its own commands, on DSTC7's files; before that its cell names the command."""
    plan = load_table(MAIN)
    column = plan.column["dstc7"]
    built(tuple(shlex.split(column.make)[1:]), workplace, run)
    words = ["lab", "table", "recipes/tables/main.toml", "-o", f"of-the-main-table/{row}", "--row", row]
    words += ["--column", "dstc7", "--set", "column.dstc7.limit=5", "--device", "cpu"]
    made = plan.row[row].command_for("dstc7", column.path)
    run(*words, code=2)
    recipe = ROOT / shlex.split(made)[2]
    settings = [*tiny(recipe), f"init.transformer={start}"]
    run(*shlex.split(made)[1:], *(word for setting in settings for word in ("--set", setting)))
    run(*words)
    (cell,) = json.loads((workplace / f"of-the-main-table/{row}/table.json").read_text())["cells"]
    assert cell["result"]["examples"] == 5
    assert cell["published"] == plan.row[row].published["dstc7"]


def test_no_two_trainings_of_the_main_table_share_a_folder():
    plan = load_table(MAIN)
    commands: dict[str, set[str]] = {}
    for row in plan.row.values():
        for key, column in plan.column.items():
            command = row.command_for(key, column.path)
            if row.ranker_for(key, column.path) and command.startswith("rejoinder train"):
                words = shlex.split(command)
                commands.setdefault(words[words.index("-o") + 1], set()).add(command)
    assert len(commands) > 100
    assert not [folder for folder, made in commands.items() if len(made) > 1]
