"""Models with a name: found before the Hub, checked, brought by other packages too, and hidden by a folder."""

import hashlib
import importlib.metadata
import importlib.util
import json
import operator
import shutil
import subprocess
import sys
import textwrap
import tomllib
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

import rejoinder
from rejoinder.encoders import bundled, persistence
from rejoinder.encoders.export import onnx
from rejoinder.encoders.bundled import Weights
from rejoinder.encoders.export.folder import export_quantized
from rejoinder.encoders.folders import describe, find, folder_bytes
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.open import open_encoder
from rejoinder.errors import InputError
from rejoinder.retrieval.index import Index
from tests.encoders.small import small_model
from workshop import bundle as script

CONTEXTS = [["hello there", "how are you"], ["reply number 7"]]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A quantised folder."""
    place = tmp_path_factory.mktemp("small")
    small_model(place / "full", blocks=1, attention_spans=(3,))
    export_quantized(place / "full", place / "small")
    return place / "small"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Folders of ONNX programs, by a digest of the network and the weights that they read."""
    return {}, tmp_path_factory.mktemp("programs")


@pytest.fixture
def records_once(recorded, monkeypatch):
    """Record the programs of a network once, which takes seconds, and copy those of an equal one."""
    pytest.importorskip("onnxscript")
    write = onnx._write_programs
    folders, place = recorded

    def write_programs(module, folder):
        parameters = {name: value.numpy().tobytes() for name, value in module.state_dict().items()}
        files = [(path.name, path.read_bytes()) for path in sorted(folder.glob("*.safetensors"))]
        whole = repr((module, module.config, parameters, files))
        digest = hashlib.sha256(whole.encode()).hexdigest()
        if digest not in folders:
            before = set(folder.iterdir())
            write(module, folder)
            folders[digest] = place / digest
            folders[digest].mkdir()
            for path in set(folder.iterdir()) - before:
                shutil.copy(path, folders[digest])
        else:
            shutil.copytree(folders[digest], folder, dirs_exist_ok=True)

    monkeypatch.setattr(onnx, "_write_programs", write_programs)
    return folders


@pytest.fixture
def home(tmp_path, small, monkeypatch):
    """A package that brings the model `tiny`, in a folder of its own."""
    folder = tmp_path / "weights"
    shutil.copytree(small, folder / "tiny")
    monkeypatch.setattr(bundled, "FOLDER", folder)
    monkeypatch.setattr(
        bundled, "BUNDLED", {"tiny": Weights(describe(small)["fingerprint"], "MIT")}
    )
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


@pytest.mark.usefixtures("home")
def test_a_name_opens_the_model_without_asking_the_hub(small, monkeypatch):
    monkeypatch.setattr(bundled, "fetch", None)
    model = rejoinder.load("tiny")
    assert np.array_equal(
        model.encode_contexts(CONTEXTS), rejoinder.load(small).encode_contexts(CONTEXTS)
    )
    assert model.name == "tiny"


def test_unknown_names_absent_weights_and_other_models_are_refused(home):
    with pytest.raises(InputError, match=r"no model 'huge': .*, tiny, an id"):
        rejoinder.load("huge")
    for name in ("bm25", "sim:tiny"):
        with pytest.raises(InputError, match=r"no model '.*tiny, an id on .*, or st:NAME of sentence-transformers$"):
            rejoinder.load(name)
    shutil.rmtree(home / "tiny")
    with pytest.raises(InputError, match="the weights of tiny are not in this installation"):
        rejoinder.load("tiny")
    small_model(home / "tiny")
    with pytest.raises(
        InputError, match=r"is not the model tiny that was installed: its fingerprint is .*again"
    ):
        rejoinder.load("tiny")


@pytest.mark.usefixtures("home")
def test_a_folder_of_that_name_comes_first():
    mine = small_model(Path("tiny"))
    assert find("tiny") == Path("tiny")
    assert rejoinder.load("tiny").fingerprint == mine.fingerprint
    assert not bundled.is_name("tiny")


def entry_point(name, value):
    return importlib.metadata.EntryPoint(name, value, bundled.GROUP)


@pytest.fixture
def other(home, small, tmp_path, monkeypatch):
    """An installed package with entry points, one for each of `points`."""
    module = types.ModuleType("other_weights")
    assert home.is_dir()
    module.points = [entry_point("big", "other_weights:WEIGHTS")]
    folder = shutil.copytree(small, tmp_path / "other" / "big")
    module.WEIGHTS = Weights(describe(folder)["fingerprint"], "CC0", folder)

    def entry_points(*, group, name=None):
        assert group == "rejoinder.weights"
        return [point for point in module.points if name in (None, point.name)]

    monkeypatch.setitem(sys.modules, "other_weights", module)
    monkeypatch.setattr(bundled, "entry_points", entry_points)
    return module


def test_another_package_brings_a_model(other):
    assert bundled.names() == ["tiny", "big"]
    assert rejoinder.load("big").fingerprint == other.WEIGHTS.fingerprint
    assert bundled.weights("big").data_licence == "CC0"


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (["other_weights:WEIGHTS"] * 2, "several packages bring a model 'big'"),
        (["no_such_module:WEIGHTS"], "is broken .*no_such_module"),
        (["other_weights:ABSENT"], "is broken .*ABSENT"),
        (["other_weights:points"], "not as rejoinder.encoders.bundled.Weights with a folder"),
    ],
)
def test_a_broken_package_is_named(other, points, said):
    other.points[:] = [entry_point("big", value) for value in points]
    with pytest.raises(InputError, match=said):
        rejoinder.load("big")


@pytest.mark.usefixtures("records_once")
def test_the_script_writes_folder_and_fingerprint(small, tmp_path):
    code = tmp_path / "bundled.py"
    empty = 'BUNDLED = {\n    "tiny": Weights(\n        fingerprint="00",\n        data_licence="MIT",\n    ),\n}\n'
    for given in (small, small.parent / "full"):
        code.write_text(empty)
        fingerprint = script.bundle(given, "tiny", tmp_path / "weights" / "tiny", code)
        assert (
            fingerprint
            == describe(small)["fingerprint"]
            == describe(tmp_path / "weights" / "tiny")["fingerprint"]
        )
        assert code.read_text() == empty.replace('"00"', f'"{fingerprint}"')
        names = sorted(path.name for path in (tmp_path / "weights" / "tiny").iterdir())
        programs = ["context.onnx", "onnx.json", "response.onnx", "trunk.onnx"]
        assert names == sorted(
            ["README.md", "config.json", "model.safetensors", "vocabulary.json", *programs]
        )
    with pytest.raises(InputError, match="no entry of 'other'"):
        script.bundle(small, "other", tmp_path / "weights" / "other", code)
    with pytest.raises(InputError, match="is a quantised folder already"):
        script.bundle(small, "tiny", tmp_path / "weights" / "tiny", code, linear_bits=8)


@pytest.mark.usefixtures("records_once")
def test_programs_of_a_joined_model_are_in_the_folders_of_its_parts(small, tmp_path):
    code = tmp_path / "bundled.py"
    code.write_text('BUNDLED = {\n    "tiny": Weights(\n        fingerprint="00",\n    ),\n}\n')
    parts = [rejoinder.load(small.parent / "full") for _ in range(2)]
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts))
    script.bundle(tmp_path / "joined", "tiny", tmp_path / "tiny", code)
    found = {
        str(path.relative_to(tmp_path / "tiny")) for path in (tmp_path / "tiny").rglob("*.onnx")
    }
    names = ("context.onnx", "response.onnx", "trunk.onnx")
    assert found == {f"{part}/{name}" for part in ("first", "second") for name in names}
    for model in (rejoinder.load(tmp_path / "tiny"), open_encoder(tmp_path / "tiny", light=True)):
        assert isinstance(model, JoinedEncoder)
        assert model.fingerprint == describe(tmp_path / "tiny")["fingerprint"]


@pytest.mark.usefixtures("records_once")
def test_quantised_parts_of_a_joined_model_keep_their_bits(small, tmp_path):
    code = tmp_path / "bundled.py"
    code.write_text('BUNDLED = {\n    "tiny": Weights(\n        fingerprint="00",\n    ),\n}\n')
    export_quantized(small.parent / "full", tmp_path / "eight", linear_bits=8)
    parts = [rejoinder.load(tmp_path / "eight"), rejoinder.load(small)]
    persistence.save_joined(tmp_path / "joined", JoinedEncoder(*parts))
    script.bundle(tmp_path / "joined", "tiny", tmp_path / "tiny", code, linear_bits=8)
    configs = [persistence.read_config(tmp_path / "tiny" / part)[1] for part in bundled.PARTS]
    assert [config["quantization"]["linear_bits"] for config in configs] == [8, 16]


def test_the_licences_are_those_of_the_corpus():
    recipe = tomllib.loads(
        (Path(__file__).parents[2] / "recipes" / "corpus" / "open.toml").read_text("utf-8")
    )
    licences = {source["licence"] for source in recipe["source"]}
    assert set(bundled.BUNDLED["convert-small"].data_licence.split(", ")) == licences


@pytest.mark.parametrize("name", list(bundled.BUNDLED))
def test_what_is_bundled_opens_and_is_small(name):
    folder = bundled.FOLDER / name
    assert find(name) == folder
    assert persistence.is_quantized(persistence.read_config(folder)[1])
    assert folder_bytes(folder) <= script.LIMIT
    scores = rejoinder.load(name).score(
        [["Do you have any pets?"]], [["Yes, two cats.", "The train leaves at nine."]]
    )
    assert scores[0, 0] > scores[0, 1]


@pytest.mark.parametrize("name", script.known()[len(bundled.BUNDLED) :])
def test_a_package_of_the_project_brings_its_model(name):
    folder, code, _ = script.places(name)
    package = tomllib.loads((code.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    module, attribute = package["entry-points"][bundled.GROUP][name].split(":")
    assert module == code.parent.name
    # this one, should another be installed
    spec = importlib.util.spec_from_file_location(module, code)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    brought = getattr(loaded, attribute)
    assert (brought.folder, brought.fingerprint) == (folder, describe(folder)["fingerprint"])
    assert all(path.stat().st_size < 100_000_000 for path in folder.rglob("*")), "GitHub's limit"
    replies = ["Yes, two cats.", "The train leaves at nine."]
    for model in (rejoinder.load(folder), open_encoder(folder, light=True)):
        [scores] = model.score([["Do you have any pets?"]], [replies])
        assert scores[0] > scores[1]


def test_a_wheel_has_the_files(small, tmp_path):
    """Built from a copy of the project in which there are weights."""
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="builds a wheel with hatchling")
    root = Path(__file__).parents[2]
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        ".gitignore",
        "src/rejoinder/__init__.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, tmp_path / name)
    shutil.copytree(small, tmp_path / "src/rejoinder/weights/tiny")
    shutil.copytree(root / "recipes", tmp_path / "recipes")
    [built] = wheel.WheelBuilder(str(tmp_path)).build(
        directory=str(tmp_path / "dist"), versions=["standard"]
    )
    with zipfile.ZipFile(built) as archive:
        files = {name for name in archive.namelist() if name.startswith("rejoinder/weights/tiny/")}
        assert "rejoinder/recipes/fine-tune-fast.toml" in archive.namelist(), "found by name"
    assert {Path(name).name for name in files} == {path.name for path in small.iterdir()}


@pytest.mark.parametrize(
    ("name", "least"), [("bi-small", [27, 14, 6, 4]), ("convert-small", [25, 14, 6, 4])]
)
def test_questions_put_to_support_are_put_off_or_answered_and_not_with_something_else(name, least):
    """Editions before service talk had 23 (bi-small) and 12 (convert-small) of the thirty."""
    model = rejoinder.load(name)
    replies = [["Let me look that up.", "We open at nine."], ["At noon.", "We open at nine."]]
    scores = model.score([["Hello!", "Where is my order?"], ["When do you open?"]], replies)
    assert scores.argmax(axis=1).tolist() == [0, 1]
    lines = Path(__file__).with_name("service_questions.tsv").read_text("utf-8").splitlines()[1:]
    questions, right, wrong = zip(*(line.split("\t") for line in lines), strict=True)
    scores = model.score(
        [[question] for question in questions], list(zip(right, wrong, strict=True))
    )
    suits = scores[:, 0] > scores[:, 1]
    found = [int(part.sum()) for part in np.split(suits, [30, 45, 53])]
    assert all(map(operator.ge, found, least)), found


@pytest.mark.parametrize("name", list(bundled.BUNDLED))
def test_long_messages_that_differ_at_their_end_are_told_apart(name):
    mail = "Hello, " + "I bought this from you some time ago and it came in a box. " * 12
    refund, password = (mail + end for end in ("I want a refund.", "I forgot my password."))
    replies = ["You get a refund within a week.", "Reset your password on this page."]
    model = rejoinder.load(name)
    encodings = model.encode_contexts([[refund], [password]])
    assert encodings[0] @ encodings[1] < 0.97
    assert model.score([[refund], [password]], [replies, replies]).argmax(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("name", list(bundled.BUNDLED))
def test_an_index_over_a_bundled_model_is_asked_where_torch_cannot_be_imported(tmp_path, name):
    pytest.importorskip("onnxruntime")
    model = open_encoder(name, light=True)  # as it is asked, in 8 bits where there are such programs
    index = Index.build(model, ["fine, thanks", "at noon.", "two cats"], tmp_path / "index")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
        import sys
        sys.modules["torch"] = None
        from rejoinder.cli.start import main
        sys.argv[1:] = ["reply", {str(index.folder)!r}, "Hello!", "how are you?", "--json"]
        main()
    """),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [
        (each["text"], pytest.approx(each["score"], abs=1e-5))
        for each in json.loads(done.stdout)["replies"]
    ]
    assert [
        (reply.text, reply.score) for reply in index.search([["Hello!", "how are you?"]])[0]
    ] == found
