"""The demo's order of commands, with a stand-in for `rejoinder` that writes down what it is asked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STAND_IN = """#!/usr/bin/env bash
echo "$@" >> asked
[ "$1" = doctor ] && [ -n "$FAST" ] && echo '{"bfloat16": true}'
[ "$1" = "$REFUSED" ] && exit 2
while [ $# -gt 0 ]; do
  if [ "$1" = -o ] && [ ! -e "$2" ]; then mkdir -p "$2/model" && touch "$2/model/config.json" "$2/recipe.toml"; fi
  shift
done
exit 0
"""

pytestmark = pytest.mark.skipif(
    shutil.which("bash") is None, reason="the demo is a script for bash"
)


@pytest.fixture
def demo(tmp_path):
    for name in ("scripts", "bin"):
        (tmp_path / name).mkdir()
    shutil.copyfile(ROOT / "scripts" / "demo.sh", tmp_path / "scripts" / "demo.sh")
    (tmp_path / "bin" / "rejoinder").write_text(STAND_IN)
    (tmp_path / "bin" / "rejoinder").chmod(0o755)
    return tmp_path


def run(place, refused="", fast="1"):
    """Exit code, what was printed, and the commands that were given."""
    environment = os.environ | {
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "REFUSED": refused,
        "FAST": fast,
    }
    done = subprocess.run(
        ["bash", "scripts/demo.sh"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    asked = [line.split() for line in (place / "asked").read_text().splitlines()]
    (place / "asked").unlink()
    return done.returncode, done.stdout + done.stderr, asked


def test_without_weights_it_says_so_and_stops(demo):
    code, printed, asked = run(demo, refused="list")
    assert code == 2
    assert asked == [["list", "models", "bi-small"]]
    assert "The demo stopped (exit code 2; the reason is above)" in printed


def test_replies_come_before_any_training_and_all_models_are_compared(demo):
    code, printed, asked = run(demo)
    assert code == 0, printed
    verbs = [command[0] for command in asked]
    first = ["list", "index", "reply", "doctor"]  # an FAQ answers within a minute
    before = [*first, "data", "index", *["reply"] * 3, "train", "train", "evaluate"]
    assert verbs == [*before, "index", *["reply"] * 3]
    assert asked[1][:4] == ["index", "build", "bi-small", "demo/faq.csv"]
    assert asked[5][:3] == ["index", "build", "bi-small"]
    evaluated = asked[verbs.index("evaluate")]
    assert {"bm25", "bi-small", "demo/tuned/model", "demo/scratch/model"} <= set(evaluated)
    for command in asked:
        recipes = [word for word in command if word.startswith("recipes/")]
        assert all((ROOT / recipe).is_file() for recipe in recipes)
    minutes = [float(word.partition("=")[2]) for word in asked[10] if ".minutes=" in word]
    assert sum(minutes) == pytest.approx(1.5), "as the headline says"
    code, printed, asked = run(demo)
    assert code == 0, printed
    made = [command for command in asked if command[0] in ("data", "index")]
    assert made == [asked[1]], "what is there is not made again"
    config = demo / "src/rejoinder/weights/bi-small/config.json"
    config.parent.mkdir(parents=True)
    config.touch()  # another edition of the weights, perhaps with other settings alone
    later = (demo / "demo/index").stat().st_mtime + 10
    os.utime(config, (later, later))
    kept = demo / "demo/tuned/kept"
    kept.touch()
    code, printed, asked = run(demo)
    assert code == 0, printed
    assert [command[2] for command in asked if command[1] == "build"] == [
        "bi-small",
        "bi-small",
        "demo/tuned/model",
    ]
    assert "--overwrite" in [command for command in asked if command[0] == "index"][1]
    assert not kept.exists(), "what was fine-tuned from the former edition"
    assert "another edition of the weights" in printed


def test_a_processor_without_bfloat16_gets_a_shorter_demo(demo):
    code, printed, asked = run(demo, fast="")
    assert code == 0, printed
    assert "no bfloat16" in printed
    words = [word for command in asked for word in command]
    assert sum(float(word.partition("=")[2]) for word in words if ".minutes=" in word) < 1
    assert "stage.0.steps=40" in words
    [data] = [command for command in asked if command[0] == "data"]
    assert data[-2:] == ["--limit", "30000"], "the steps see 20,480 examples"
