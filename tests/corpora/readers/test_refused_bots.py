"""Exports of bots whose replies are not read: refused by name, with how to convert them."""

import io
import json
import zipfile

import pytest

from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.errors import InputError

OPEN = "We open at nine."
MESSAGES = {"messages": [{"contentType": "PlainText", "content": OPEN}]}
# Lex V1: a bot, or an intent, as its console exports it (schema 1.0).
LEX_INTENT = {
    "name": "OpeningHours",
    "version": "1",
    "fulfillmentActivity": {"type": "ReturnIntent"},
    "sampleUtterances": ["when do you open", "opening hours"],
    "slots": [],
    "conclusionStatement": MESSAGES,
}
METADATA = {"schemaVersion": "1.0", "importType": "LEX", "importFormat": "JSON"}
LEX_BOT = {
    "metadata": METADATA,
    "resource": {
        "name": "Shop",
        "version": "1",
        "intents": [LEX_INTENT],
        "slotTypes": [],
        "voiceId": "Joanna",
        "childDirected": False,
        "locale": "en-US",
        "idleSessionTTLInSeconds": 300,
        "clarificationPrompt": {**MESSAGES, "maxAttempts": 2},
        "abortStatement": MESSAGES,
    },
}
# Lex V2: Shop/BotLocales/en_US/Intents/OpeningHours/Intent.json of the exported archive.
LEX_V2_INTENT = {
    "name": "OpeningHours",
    "identifier": "ABCDEFGHIJ",
    "description": None,
    "parentIntentSignature": None,
    "sampleUtterances": [{"utterance": "when do you open"}, {"utterance": "opening hours"}],
    "intentClosingSetting": {
        "isActive": True,
        "closingResponse": {
            "allowInterrupt": True,
            "messageGroupsList": [
                {"message": {"plainTextMessage": {"value": OPEN}, "ssmlMessage": None}, "variations": None}
            ],
        },
    },
    "slotPriorities": [],
}
# Alexa: interactionModels/custom/en-US.json of a skill.
ALEXA = {
    "interactionModel": {
        "languageModel": {
            "invocationName": "opening hours",
            "intents": [
                {"name": "AMAZON.StopIntent", "samples": []},
                {"name": "HoursIntent", "slots": [], "samples": ["when do you open", "your hours"]},
            ],
            "types": [],
        }
    }
}
# Botpress Cloud: bot.json of a .bpz.
BOTPRESS = {
    "version": "1.9",
    "settings": {"defaultLanguage": "en", "languages": ["en"], "description": "", "id": "a2ef"},
    "flows": [
        {
            "id": "wf-main",
            "name": "Main",
            "startNode": "nd-1",
            "variables": [],
            "links": [],
            "nodes": [
                {
                    "id": "nd-1",
                    "name": "Standard1",
                    "type": "standard",
                    "instructions": [{"id": "ins-1", "type": "say", "text": OPEN}],
                }
            ],
        }
    ],
}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (LEX_BOT, "Amazon Lex.*columns answer and question"),
        ({"metadata": METADATA, "resource": LEX_INTENT}, "Amazon Lex.*columns answer and question"),
        (LEX_V2_INTENT, "Amazon Lex.*columns answer and question"),
        (ALEXA, "Alexa skill.*messages that people wrote.*intents train"),
        (ALEXA["interactionModel"], "Alexa skill.*messages that people wrote.*intents train"),
        (BOTPRESS, "Botpress Cloud.*columns answer and question"),
    ],
    ids=["lex-v1-bot", "lex-v1-intent", "lex-v2-intent", "alexa", "alexa-inner", "botpress-cloud"],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_bots_export_is_refused_by_name_with_a_way_out(content, told, indent, tmp_path):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(content, indent=indent), encoding="utf-8")
    with pytest.raises(InputError, match=told) as refused:
        list(read_candidates(path))
    assert "format=text" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("archive", "name", "content"),
    [
        ("Shop-DRAFT.zip", "Shop/BotLocales/en_US/Intents/OpeningHours/Intent.json", LEX_V2_INTENT),
        ("shop.bpz", "bot.json", BOTPRESS),
    ],
)
def test_the_archive_that_is_exported_gives_no_reply_either(archive, name, content, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(name, json.dumps(content))
    path = tmp_path / archive
    path.write_bytes(packed.getvalue())
    with pytest.raises(InputError) as refused:
        list(read_candidates(path))
    assert archive in str(refused.value)
