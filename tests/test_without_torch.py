"""What a bot or a desk does works with the base alone: no PyTorch, no pyarrow, no SciPy; same results."""

import json
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import rejoinder

FAQ = """question,answer
I lost my card,We will send another card.
my card was stolen,We will send another card.
When do you open?,We open at nine.
are you open on sunday,We open at nine.
How do I pay?,By card.
"""
CHATS = [
    ["Hi!", "Hello, how can I help?", "My card is gone", "We will send another card."],
    ["Hi!", "Hello, how can I help?", "Opening hours?", "We open at nine."],
]
EXPORT = "conversation,role,text\n" + "".join(
    f"{number},customer,my card is gone {number}\n{number},agent,We will send another card.\n"
    for number in range(4)
)
BLOCKED = """
import importlib.util, sys
HIDDEN = ("torch", "transformers", "sentence_transformers", "pyarrow", "polars", "scipy", "sklearn", "bm25s")
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])
sys.meta_path.insert(0, Hidden())
def find_spec(name, package=None, spec_of=importlib.util.find_spec):
    return None if name in HIDDEN else spec_of(name, package)
importlib.util.find_spec = find_spec
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    (folder / "faq.csv").write_text(FAQ)
    (folder / "export.csv").write_text(EXPORT)
    chats = "".join(json.dumps({"turns": turns}) + "\n" for turns in CHATS)
    (folder / "chats.jsonl").write_text(chats)
    return folder


def without_torch(folder, code):
    """What a program prints where PyTorch cannot be imported."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + textwrap.dedent(code)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def commands(*lines):
    return f"""
        from rejoinder.cli.start import main
        for line in {lines!r}:
            sys.argv = ["rejoinder", *line.split()]
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise SystemExit(f"{{line}}: {{end.code}}")
    """


def test_the_command_does_all_but_training(folder):
    shown = without_torch(
        folder,
        commands(
            "index build bi-small faq.csv -o faq --json",
            "reply faq somebody-stole-my-card --why --json",
            "learn faq --data chats.jsonl --json",
            "reply faq is-my-card-lost --hybrid 0.1 --json",
            "index evaluate faq --data chats.jsonl --json",
            "index reencode faq convert-small -o other --json",
            "report faq --json",
            "mine export.csv --least 2 -o mined.csv --json",
            "data jsonl chats.jsonl -o data --dry-run --json",
            "evaluate convert-small bm25 --data chats.jsonl --candidates 2 --json",
            "list models --json",
            "doctor --json",
        ),
    )
    answers = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
    assert len(answers) == 12
    assert {"bi-small", "convert-small"} <= {model["name"] for model in answers[-2]["models"]}
    assert answers[1]["replies"][0]["text"] == "We will send another card."
    assert answers[3]["replies"][0]["text"] == "We will send another card."
    assert answers[-1]["torch"] is None


def test_vectors_and_fingerprints_are_those_of_pytorch(folder):
    texts = ["Where is my order?", "hello " * 100, "x"]
    code = f"""
        import json, rejoinder
        found = {{}}
        for name in ("bi-small", "convert-small"):
            model = rejoinder.load(name, precision="fp32")
            contexts = [["Hi!", "Hello.", text] for text in {texts!r}]
            found[name] = [
                model.fingerprint,
                model.encode_contexts(contexts).tolist(),
                model.encode_responses({texts!r}).tolist(),
                model.transfer({texts!r}).tolist(),
            ]
        print(json.dumps(found))
    """
    for name, (fingerprint, *vectors) in json.loads(without_torch(folder, code)).items():
        model = rejoinder.load(name, precision="fp32")
        contexts = [["Hi!", "Hello.", text] for text in texts]
        assert fingerprint == model.fingerprint
        expected = [
            model.encode_contexts(contexts),
            model.encode_responses(texts),
            model.transfer(texts),
        ]
        for ours, theirs in zip(vectors, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "train convert-quick --data chats.jsonl -o run",
            "this needs PyTorch, which is not installed: pip install 'rejoinder[torch]'",
        ),
        ("data jsonl chats.jsonl -o data", "needs pyarrow, which is not installed: pip install 'rejoinder[parquet]'"),
        ("evaluate bi-small --data old.parquet", "Parquet needs the extra 'parquet': pip install 'pyarrow"),
        ("index build bi-small old.parquet -o index", "pip install 'rejoinder[parquet]'"),
    ],
)
def test_what_needs_an_extra_says_how_to_install_it(folder, line, reason):
    (folder / "old.parquet").write_bytes(b"PAR1")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            BLOCKED + textwrap.dedent(commands(line)),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert reason in done.stderr


def test_an_intent_classifier_is_trained_without_pytorch_as_with_it(folder):
    pytest.importorskip("sklearn")
    lines = [f"I lost my card {number},card" for number in range(9)]
    lines += [f"when do you open on day {number},hours" for number in range(9)]
    (folder / "intents.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    verbs = (
        "intents train convert-small intents.csv -o {0} --json",
        "intents evaluate {0} intents.csv --json",
        "intents predict {0} opening-hours --json",
    )
    hidden = BLOCKED.replace(', "scipy", "sklearn"', "")
    shown = {}
    for name, start in (("light", hidden), ("whole", "import sys")):
        code = start + textwrap.dedent(commands(*(verb.format(name) for verb in verbs)))
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        shown[name] = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
    light, whole = (json.dumps(shown[name][1:]) for name in ("light", "whole"))
    numbers = [np.array(re.findall(r"-?\d+\.\d+", text), float) for text in (light, whole)]
    assert "card" in light
    np.testing.assert_allclose(*numbers, atol=1e-3)
