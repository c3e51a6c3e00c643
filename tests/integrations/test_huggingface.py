"""What goes up to the Hub comes down by its id, offline, out of the Hub's own cache."""

import re
import shutil
from unittest import mock

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HfHubHTTPError

import rejoinder
from rejoinder.encoders.joined import JoinedEncoder
from rejoinder.encoders.persistence import load, save_joined
from rejoinder.errors import InputError
from rejoinder.integrations import huggingface
from rejoinder.integrations.huggingface import save_to_hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """No network: what is committed lands in the cache, as if it had been fetched before."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    api = mock.create_autospec(HfApi, instance=True)

    def commit(repository, operations, *, commit_message):
        assert commit_message
        place = tmp_path / "cache" / f"models--{repository.replace('/', '--')}"
        (place / "refs").mkdir(parents=True)
        (place / "refs" / "main").write_text(COMMIT)
        for each in operations:
            path = place / "snapshots" / COMMIT / each.path_in_repo
            path.parent.mkdir(parents=True, exist_ok=True)
            with each.as_file() as file:
                path.write_bytes(file.read())
        return mock.Mock(repo_url=f"https://huggingface.co/{repository}")

    api.create_commit.side_effect = commit
    monkeypatch.setattr(huggingface, "HfApi", lambda **_: api)
    return api


def test_a_model_goes_up_and_comes_down(hub, model, tmp_path):
    shutil.copytree(model, tmp_path / "mine")
    (tmp_path / "mine" / "notes.txt").write_text("not for others")
    assert (
        save_to_hub(tmp_path / "mine", "team/replies", private=True)
        == "https://huggingface.co/team/replies"
    )
    hub.create_repo.assert_called_once_with("team/replies", private=True, exist_ok=True)
    found = rejoinder.load("team/replies")
    assert found.fingerprint == load(model).fingerprint
    files = {path.name: path for path in (tmp_path / "cache").rglob("*.*")}
    assert "notes.txt" not in files
    card = huggingface_hub.ModelCard(files["README.md"].read_text())
    assert card.data.library_name == "rejoinder"
    assert card.text.strip() == "# A model"


def test_two_models_in_one_come_down_whole(model, history_model, tmp_path):
    parts = load(model), load(history_model)
    both = JoinedEncoder(*parts, 0.5)
    save_joined(tmp_path / "both", both)
    save_to_hub(tmp_path / "both", "team/both")
    np.testing.assert_array_equal(
        load("team/both").encode_responses(["hi"]), both.encode_responses(["hi"])
    )


def test_what_the_hub_has_not_or_refuses_is_one_line(hub, model):
    with pytest.raises(
        InputError, match=r"no model folder team/none, nor could .* be fetched: [^\n]+$"
    ):
        rejoinder.load("team/none")
    hub.create_repo.side_effect = HfHubHTTPError("401 Unauthorized\nmore", response=mock.Mock())
    with pytest.raises(
        InputError,
        match=re.escape("team/x could not be written to the Hugging Face Hub: 401 Unauth"),
    ):
        save_to_hub(model, "team/x")
    hub.create_repo.side_effect = OSError()
    with pytest.raises(InputError, match=r"team/x could not be written to the Hugging Face Hub: OSError$"):
        save_to_hub(model, "team/x")
    with pytest.raises(InputError, match="no model 'nowhere'"):
        save_to_hub("nowhere", "team/x")
