"""What examples can be built from: each corpus by its name, its settings and its inputs as a user gives them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rejoinder.corpora import formats, reddit
from rejoinder.corpora.corpus import Corpus, Input
from rejoinder.corpora.example import SPLITS
from rejoinder.corpora.readers import amazon_qa, chitchat, convai2, dstc7, opensubtitles, semeval, ubuntu, wikipedia
from rejoinder.errors import InputError
from rejoinder.settings import parse_setting, validate

# A new corpus is imported above (its file imports no extra's library) and listed here.
_ALL = [chitchat.CORPUS, formats.JSONL, formats.CSV, formats.FAQ, formats.DIALOGUES, opensubtitles.CORPUS]
_ALL += [amazon_qa.CORPUS, wikipedia.CORPUS, wikipedia.SENTENCES, ubuntu.CORPUS, dstc7.CORPUS, convai2.CORPUS]
_ALL += [semeval.CORPUS, reddit.CORPUS]
CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in _ALL}


def find_corpus(source: str | Corpus) -> Corpus:
    """Return the corpus of this name, or raise InputError; one that is given itself is given back."""
    if isinstance(source, Corpus):
        return source
    if source not in CORPORA:
        raise InputError(f"no source {source!r}; there are {', '.join(CORPORA)}")
    return CORPORA[source]


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a corpus."""

    name: str
    kind: str  # its type as the code writes it
    default: Any
    meaning: str


def settings_of(corpus: Corpus) -> list[Setting]:
    """Return the settings of a corpus, in the order of its dataclass."""
    # Pydantic reads the texts below the fields of its own dataclasses alone.
    source = "".join(inspect.getsource(each) for each in corpus.settings.__mro__[:-1])
    texts = dict(re.findall(r'^    (\w+): .*\n    """([^"]+)"""', source, re.MULTILINE))
    return [
        Setting(each.name, str(each.type), each.default, " ".join(texts.get(each.name, "").split()))
        for each in dataclasses.fields(corpus.settings)
    ]


def read_settings(corpus: Corpus, given: Sequence[str]) -> Any:
    """Return `corpus.settings` with what is given as "name=value"; InputError for what is unknown or not allowed."""
    values = dict(parse_setting(each, "name=value") for each in given)
    if values and not dataclasses.fields(corpus.settings):
        raise InputError(f"--set {given[0]}: {corpus.name} has no settings")
    return validate(corpus.settings, values, f"settings of {corpus.name}")


def find_inputs(corpus: Corpus, inputs: Sequence[str | Path]) -> list[Input]:
    """Return the files to read, once they are seen to fit the corpus and to be there; else InputError, before any work.

    Inputs are paths, or "train=PATH", "valid=PATH", "test=PATH" where there is no file of that whole name.
    """
    if corpus.packaged is not None:
        if inputs:
            raise InputError(f"{corpus.name} brings its own data; leave {inputs[0]} out")
        return [Input(corpus.packaged())]
    if not inputs:
        raise InputError(f"{corpus.name} reads files; name at least one")
    return [_find_input(each) for each in inputs]


def _find_input(given: str | Path) -> Input:
    prefix, _, rest = str(given).partition("=")
    part = next((split for split in SPLITS if split == prefix), None)
    found = Input(Path(given)) if part is None or Path(given).exists() else Input(Path(rest), part)
    if found.path.is_dir():
        raise InputError(f"{found.path} is a folder; name the files in it")
    if not found.path.exists():
        raise InputError(f"{found.path} does not exist; check the name, before which may stand train=, valid= or test=")
    return found
