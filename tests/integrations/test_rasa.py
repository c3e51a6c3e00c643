"""The component of docs/rasa.md asks a server of ours; what it imports of Rasa, and its parts, are stand-ins."""

import ast
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from rejoinder.intents.classifier import train_classifier
from rejoinder.intents.data import TrainingTexts
from tests.intents.toy import WordVectors, outside_texts, toy_data

pytest.importorskip("fastapi")
pytest.importorskip("sklearn")
from starlette.testclient import TestClient

from rejoinder.retrieval.index import Index
from rejoinder.serving.worker.answers import Answers
from rejoinder.serving.worker.sources import Sources
from rejoinder.serving.app import make_app
from rejoinder.serving.server_settings import ServerSettings
from rejoinder.serving.worker.computing import Computing
from tests.retrieval.conftest import HashEncoder

NOTHING = {"name": None, "confidence": 0.0}
PAGE = Path(__file__).parents[2] / "docs" / "rasa.md"


class Message(dict):
    def set(self, name, value, add_to_output=False):
        assert add_to_output
        self[name] = value


def register(_type, *, is_trainable):
    assert is_trainable is False
    return lambda component: component


@pytest.fixture
def component(monkeypatch):
    """The class of the page, which Python 3.8 can read, over modules that have what it imports."""
    (code,) = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    tree = ast.parse(code, feature_version=(3, 8))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("rasa."):
            module = ModuleType(node.module)
            vars(module).update({each.name: type(each.name, (), {}) for each in node.names})
            monkeypatch.setitem(sys.modules, node.module, module)
    recipe = sys.modules["rasa.engine.recipes.default_recipe"].DefaultV1Recipe
    recipe.register, recipe.ComponentType = register, SimpleNamespace(INTENT_CLASSIFIER="intents")
    requests = ModuleType("requests")
    requests.RequestException = OSError  # which it is
    monkeypatch.setitem(sys.modules, "requests", requests)
    names = {}
    exec(compile(tree, str(PAGE), "exec"), names)
    return names["RejoinderIntents"]


def test_messages_get_their_intents(component, tmp_path):
    encoder = HashEncoder()
    Index.build(encoder, ["a reply"], tmp_path / "index")
    classifier = train_classifier(
        WordVectors(), TrainingTexts(toy_data(20), oos_texts=outside_texts(16))
    )
    sources = Sources(index=tmp_path / "index")
    answers = Answers(sources, Index.open(sources.index, encoder), encoder)
    answers.classifier = classifier
    texts = [*toy_data(2, seed=5).texts, *outside_texts(4, seed=5)]
    messages = [Message(text=text) for text in texts]
    silent = Message(text=" ")
    made = component.create(
        component.get_default_config() | {"url": "", "key": "secret"}, None, None, None
    )
    app = make_app(ServerSettings(sources=sources), Computing(sources, answers))
    with TestClient(app, base_url="http://localhost") as server:

        def post(url, *, json, headers, timeout):
            assert (headers, timeout) == ({"Authorization": "Bearer secret"}, 5.0)
            return server.post(url, json=json)

        sys.modules["requests"].post = post
        assert made.process([*messages, silent]) == [*messages, silent]
        assert made.process([silent]) == [silent]
        [long] = made.process([Message(text=f"{texts[0]} " * 2000)])
        assert long["intent"]["name"] == messages[0]["intent"]["name"]
    for message, told in zip(messages, classifier.predict(texts), strict=True):
        assert message["intent"]["name"] == (None if told.out_of_scope else told.labels[0])
        assert [each["name"] for each in message["intent_ranking"]] == [
            label for label, _ in told.ranking
        ]
    assert {message["intent"]["name"] for message in messages} > {None}
    assert (silent["intent"], silent["intent_ranking"]) == (NOTHING, [])


def test_while_the_server_is_away_the_fallback_answers(component, caplog):
    def post(*_, **__):
        raise ConnectionError("refused")

    sys.modules["requests"].post = post
    made = component.create(component.get_default_config(), None, None, None)
    [message] = made.process([Message(text="Hello?")])
    assert (message["intent"], message["intent_ranking"]) == (NOTHING, [])
    assert "the Rejoinder server has told no intents" in caplog.text
