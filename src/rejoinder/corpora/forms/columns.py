"""Usual names of columns that several readers know, as `tables.fold` writes them."""

MESSAGE = ("text", "message", "body", "content", "comment", "utterance", "msg")
REPLY = ("text", "response", "reply", "answer")
QUESTIONS = ("question", "questions", "examples", "patterns", "utterances", "phrases")
INTENT = ("intent", "intents", "label", "labels", "intent_name")
