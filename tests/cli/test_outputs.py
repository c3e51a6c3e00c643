"""What stands at `-o` already: of others it is never touched, of ours it is replaced with --overwrite alone."""

import csv
import importlib.util
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w

from rejoinder.corpora.forms.examples import read_examples, write_examples
from rejoinder.encoders.persistence import save
from rejoinder.training.recipe_files import save_recipe
from tests.encoders.small import small_model
from tests.encoders.tiny_transformer import network, tokenizer
from tests.intents.toy import toy_data
from tests.training.tiny import recipe, stage, write_data
from tests.training.transformers import write_checkpoint
from tests.workshop.corpus.test_build import dialogues, write

MARKERS = (
    "config.json",
    "counts.json",
    "modules.json",
    "manifest.json",
    "onnx.json",
    "data.json",
    "report.json",
    "tokenizer_config.json",
    "table.json",
    "classifier.safetensors",
)
# what writes a whole folder: another name for what takes longer, and the folder's marker
REPLACED = {
    "export --to quantized": "export MODEL --to quantized -o OUT",
    "export --to sentence-transformers": "export MODEL --to sentence-transformers -o OUT",
    "export --to transformers": "export BERT --to transformers -o OUT",
    "index build": "index build MODEL replies.txt -o OUT",
    "intents train": "intents train MODEL intents.csv -o OUT",
    "intents evaluate": "intents evaluate CLASSIFIER intents.csv --report OUT",
    "lab bert": "lab bert START intents.csv --test intents.csv -o OUT --set epochs=1",
    "intents fine-tune": "intents fine-tune MODEL intents.csv -o OUT --set steps=1",
    "data": "data jsonl dialogues/a.jsonl -o OUT",
}
SHARED = {  # what writes into a folder, or goes on in it
    "train": "train recipe.toml --data examples -o OUT",
    "lab tokenise": "lab tokenise recipe.toml --data examples -o OUT",
    "lab ablate": "lab ablate rows.toml --data examples -o OUT",
    "lab table": "lab table table.toml -o OUT",
    "evaluate": "evaluate MODEL examples --candidates 20 -o OUT",
    "lab grid": "lab grid MODEL intents.csv -o OUT",
    "lab plot": "lab plot MODEL --data texts.csv -o OUT",
}
NO_ONNX = pytest.mark.skipif(
    importlib.util.find_spec("onnxscript") is None, reason="needs the extra onnx"
)
SLOW = pytest.mark.slow
ONNX = [
    pytest.param(line, marks=NO_ONNX)
    for line in ("export MODEL --to onnx -o OUT", "intents export CLASSIFIER -o OUT")
]
Run = Callable[[str, Path], tuple[int, str]]


def make_place(folder):
    small_model(folder / "MODEL", blocks=1, attention_spans=(3,))
    write_checkpoint(folder / "START")
    save(folder / "BERT", network("cross match"), tokenizer(), max_length=20, card="")
    write_data(folder / "examples")
    write_examples(
        read_examples(folder / "examples", "valid"), folder / "examples" / "test-00000.parquet"
    )
    save_recipe(recipe("", stage=[stage(steps=2)]), folder / "recipe.toml")
    rows = {"name": "Rows", "recipe": "recipe.toml", "row": [{"name": "a", "settings": ["seed=1"]}]}
    (folder / "rows.toml").write_text(tomli_w.dumps(rows))
    (folder / "table.toml").write_text(
        'name = "T"\n[row.b]\nname = "B"\nranker = "bm25"\n[column.n]\nname = "N"\n'
        'path = "examples"\ncandidates = 20\n'
    )
    (folder / "replies.txt").write_text("hello\nat noon\n")
    (folder / "more.txt").write_text("good bye\nsee you\nat nine\n")
    write(folder / "dialogues", a=dialogues(1, 60))
    (folder / "corpus.toml").write_text(
        'kind = "corpus"\n[[source]]\nname = "a"\nlicence = "MIT"\nfile = "a.jsonl"\n'
    )
    data = toy_data(6)
    for name, header in (("intents.csv", ["text", "label"]), ("texts.csv", ["text", "category"])):
        with (folder / name).open("w", newline="") as file:
            pairs = zip(data.texts, (label for (label,) in data.labels), strict=True)
            csv.writer(file).writerows([header, *pairs])
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return make_place(tmp_path_factory.mktemp("outputs"))


@pytest.fixture
def run(place, command, monkeypatch):
    """Run a command line, OUT being the folder: the exit code and standard error."""
    monkeypatch.chdir(place)

    def run(line, out):
        code, _, err = command(*(str(out) if word == "OUT" else word for word in line.split()))
        return code, err

    if not (place / "CLASSIFIER").exists():
        assert run("intents train MODEL intents.csv -o OUT", place / "CLASSIFIER")[0] == 0
    return run


def contents(folder):
    """Every file by its path, hidden ones and folders too, of the folder and beside it."""
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in folder.parent.rglob("*")
    }


@pytest.mark.parametrize(
    "verb", ["train", "index build", "intents train", "export --to quantized", "data", "evaluate"]
)
def test_others_may_read_what_the_umask_lets_them_read(run, tmp_path, verb):
    """Weights too, which safetensors writes for their owner alone."""
    umask = os.umask(0o027)
    try:
        assert run((REPLACED | SHARED)[verb], tmp_path / "out")[0] == 0
    finally:
        os.umask(umask)
    written = [tmp_path / "out", *(tmp_path / "out").rglob("*")]
    assert {oct(path.stat().st_mode & 0o777) for path in written} <= {"0o750", "0o640"}


@pytest.mark.parametrize("line", [*REPLACED.values(), *SHARED.values(), *ONNX])
def test_a_project_of_others_is_never_touched(run, tmp_path, line):
    """It has files that are called as ours are, and every verb is told to overwrite, if it can be."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (project / "main.py").write_text("print('ten years of work')\n")
    for marker in MARKERS:
        (project / marker).write_text(json.dumps({"name": "a project", "format": 1}))
    before = contents(project)
    overwrite = "" if line in SHARED.values() else " --overwrite"
    code, said = run(line + overwrite, project)
    assert contents(project) == before
    assert code == 2, said
    assert "looks like a bug" not in said


@pytest.mark.parametrize(
    "line", [*REPLACED.values(), *(pytest.param(*o.values, marks=[*o.marks, SLOW]) for o in ONNX)]
)
def test_what_is_ours_is_replaced_with_overwrite_alone(run, tmp_path, line):
    out = tmp_path / "out"
    assert run(line, out)[0] == 0
    before = contents(out)
    assert {str(out)} == {name for name in before if Path(name).parent == tmp_path}, (
        "nothing beside it"
    )
    other = line
    if line == REPLACED["data"]:
        assert run(line, out)[0] == 0, "the same examples may be made again"
        other = line.replace("a.jsonl", "b.jsonl")
        shutil.copy("dialogues/a.jsonl", "dialogues/b.jsonl")
    code, said = run(other, out)
    assert (code, contents(out)) == (2, before)
    assert "--overwrite" in said
    (out / "notes").mkdir()
    (out / "notes" / "letter.txt").write_text("mine")
    with_notes = contents(out)
    code, said = run(f"{other} --overwrite", out)
    assert (code, contents(out)) == (2, with_notes)
    assert "holds notes" in said
    shutil.rmtree(out / "notes")
    code, said = run(f"{other} --overwrite", out)
    assert code == 0, said
    assert {Path(name).name for name in contents(out)} == {Path(name).name for name in before}
