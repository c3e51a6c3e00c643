"""The Makefile's environment: installed again when what is asked for changed, and only then."""

import pytest

import environment

SETTINGS = """\
[build-system]
requires = ["hatchling"]
[project]
dependencies = ["numpy"]
[project.optional-dependencies]
train = ["tensorboard"]
demo = ["chitchat-dataset"]
[project.scripts]
rejoinder = "rejoinder.cli:main"
[tool.ruff]
line-length = 120
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "constraints.txt").write_text("numpy==2.4.6\n")
    return tmp_path


def change(root, file, old, new):
    path = root / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def stamp(root, *extras):
    (root / ".venv" / "stamps").mkdir(parents=True, exist_ok=True)
    for extra, fingerprint in environment.stale_extras(root, root / ".venv", extras).items():
        (root / ".venv" / "stamps" / extra).write_text(fingerprint, encoding="utf-8")


def stale(root):
    return list(environment.stale_extras(root, root / ".venv", ["train", "demo"]))


def test_a_new_environment_needs_everything_and_what_is_installed_is_left_alone(root):
    assert stale(root) == ["train", "demo"]
    stamp(root, "train")
    assert stale(root) == ["demo"]
    change(root, "pyproject.toml", "line-length = 120", "line-length = 100")
    assert stale(root) == ["demo"]


def test_a_change_installs_again(root):
    for file, old, new, expected in (
        ("constraints.txt", "2.4.6", "2.4.7", ["train", "demo"]),
        ("pyproject.toml", '"numpy"', '"numpy", "regex"', ["train", "demo"]),
        ("pyproject.toml", "cli:main", "shell:main", ["train", "demo"]),
        ("pyproject.toml", '"chitchat-dataset"', '"chitchat-dataset>=1"', ["demo"]),
    ):
        stamp(root, "train", "demo")
        assert stale(root) == []
        change(root, file, old, new)
        assert stale(root) == expected


def test_a_failed_installation_leaves_no_stamp(root, monkeypatch):
    monkeypatch.setattr(environment, "create", lambda venv: venv / "bin" / "python")
    monkeypatch.setattr(environment.install_torch, "install", lambda _python, _build: None)
    monkeypatch.setattr(
        environment.quiet_pip, "install", lambda _python, _arguments: ["ERROR: no space"]
    )
    with pytest.raises(SystemExit, match="pip's reasons above"):
        environment.install(root, root / ".venv", ["train"], "cpu")
    assert stale(root) == ["train", "demo"]
