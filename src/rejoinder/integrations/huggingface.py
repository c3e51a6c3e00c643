"""The Hugging Face Hub: `save_to_hub` uploads a model.

`rejoinder.load("owner/name")` downloads one, through the Hub's cache.

>>> save_to_hub("runs/chats/model", "my-team/support-replies", private=True)     # doctest: +SKIP
>>> model = rejoinder.load("my-team/support-replies")                            # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import CommitOperationAdd, HfApi, ModelCardData
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from rejoinder.encoders.folders import CARD, FOLDER, find
from rejoinder.encoders.persistence import whole_config
from rejoinder.errors import InputError, reason_of

METADATA = ModelCardData(
    library_name="rejoinder", pipeline_tag="text-ranking", tags=["response-selection"]
)


def save_to_hub(
    model: str | Path, repository: str, *, private: bool = False, token: str | None = None
) -> str:
    """Upload a model folder or a named model to a repository `owner/name`.

    Return its address. The repository is created if needed, and all files change in one commit. The
    model's README.md becomes its page there, with the metadata for the Hub's search at the top,
    unless it has some. The default `token` is that of `hf auth login` or HF_TOKEN.

    Raises:
        InputError: there is no such model, its folder is incomplete, or the Hub refuses.
    """
    folder = find(model)
    whole_config(folder)
    card = (folder / CARD).read_text(encoding="utf-8") if (folder / CARD).is_file() else ""
    if not card.startswith("---\n"):
        card = f"---\n{METADATA.to_yaml()}\n---\n\n{card}"
    files = [
        path for pattern in FOLDER.files for path in folder.glob(pattern) if path != folder / CARD
    ]
    operations = [CommitOperationAdd(path.relative_to(folder).as_posix(), path) for path in files]
    operations.append(CommitOperationAdd(CARD, card.encode()))
    api = HfApi(token=token)
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        return str(
            api.create_commit(
                repository, operations, commit_message="Upload a model of Rejoinder"
            ).repo_url
        )
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise InputError(
            f"{repository} could not be written to the Hugging Face Hub: {reason_of(error)}"
        ) from error
