"""A trained model as a folder that sentence-transformers opens, and that stays a model folder of ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from rejoinder.files import Kind, atomic_folder, check_replaceable
from rejoinder.models import persistence
from rejoinder.models.sentence_module import SETTINGS, PlainSide, SentenceModule, check_side, write_settings

MODULES, OPTIONS = "modules.json", "config_sentence_transformers.json"
MODULE = f"{SentenceModule.__module__}.{SentenceModule.__name__}"
FOLDER = Kind(
    "a sentence-transformers folder that we wrote",
    MODULES,
    lambda modules: modules[0]["type"] == MODULE,
    (*persistence.FOLDER.files, MODULES, OPTIONS, SETTINGS),
)


def export_sentence_transformers(
    model: str | Path, output: str | Path, side: PlainSide = "context", *, overwrite: bool = False
) -> dict[str, Any]:
    """Write a folder for `SentenceTransformer(folder, trust_remote_code=True)`; both sides are in it.

    Weights, vocabulary and configuration are copied as they are, so the fingerprint stays and `rejoinder.load` opens
    the folder too.

    Args:
        model: a model folder, quantised or not, a bundled model's name, or an id on the Hugging Face Hub.
        output: the folder to write.
        side: what the library's plain `encode` takes texts as.
        overwrite: replace an earlier folder of this kind there.

    Returns:
        What was written, as `persistence.describe` tells it, with the side.

    Raises:
        InputError: there is no such model, there is no such side, or the output is
            something else.
    """
    side = check_side(side)
    check_replaceable(output, FOLDER, overwrite=overwrite)
    folder = persistence.find(model)
    module, _, _ = persistence.load_module(folder)  # refuses what is damaged
    with atomic_folder(output, FOLDER, overwrite=overwrite) as part:
        for name in (persistence.CONFIG, persistence.WEIGHTS, persistence.VOCABULARY):
            shutil.copyfile(folder / name, part / name)
        write_settings(part, side)
        _write(part / MODULES, [{"idx": 0, "name": "0", "path": "", "type": MODULE}])
        options = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine", "default_prompt_name": None}
        _write(part / OPTIONS, {**options, "prompts": {"query": "", "document": ""}})
        card = persistence.read_card(folder) + _card(side, module.history is not None)
        (part / persistence.CARD).write_text(card, encoding="utf-8")
    return persistence.describe(Path(output)) | {"side": side}


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _card(side: PlainSide, reads_history: bool) -> str:
    history = "\n\nA context may be a list of messages, oldest first, each `{\"role\": ..., \"content\": ...}`."
    return (
        "\n\n## sentence-transformers\n\nWith `rejoinder` and `sentence-transformers` installed:\n```python\n"
        'model = SentenceTransformer("this folder", trust_remote_code=True)\n'
        "contexts, responses = model.encode_query([...]), model.encode_document([...])\n```\n"
        f"`encode` takes texts as {side}s. The class of the model is imported from the package `rejoinder`; the "
        "library asks for `trust_remote_code` for every class that is not its own."
        f"{history if reads_history else ''}\n"
    )
