"""Replies in the forms of the tools: one table of files, the form that is found, and what is read."""

import dataclasses
import io
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.errors import InputError
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.mapping import NO_SENTENCE
from rejoinder.corpora.readers.answers.texts.written import LINES_ABOVE
from rejoinder.corpora.registry.recognition import FORMS, find_form
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.forms.choice import parse_choice
from tests.corpora.readers.tool_files import BOUND, INACTIVE, TOOL_FILES
from tests.corpora.readers.workbook import workbook

PARCEL = "It is on its way: look at the link, please."
HOURS = "We are open from 9 to 5."
RETURN = "Send it back within 30 days, für 0 €."


def questions(*texts):
    return tuple((text,) for text in texts)


@dataclasses.dataclass
class File:
    """A file, the form that is found in it, and what is read."""

    name: str
    content: object  # bytes; a text; of a zip file or a folder, texts by name
    form: str
    wanted: list
    notes: str = ""
    dropped: dict = dataclasses.field(default_factory=dict)
    column: tuple = ()
    format: str = ""


def zipped(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return data.getvalue()


def parquet(rows):
    data = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), data)
    return data.getvalue()


PAIRS = [("Where is my parcel?", PARCEL), ("When are you open?", HOURS), ("Parcel?", PARCEL)]
ROWS = [{"question": question, "answer": answer} for question, answer in PAIRS]
TABLE = [
    Candidate(PARCEL, {}, "", questions("Where is my parcel?", "Parcel?")),
    Candidate(HOURS, {}, "", questions("When are you open?")),
]
IN_CATEGORIES = [
    Candidate(HOURS, {"category": "Shop"}, "", questions("When?")),
    Candidate(PARCEL, {"category": "Parcels"}, "", questions("Parcel?")),
]


def delimited(delimiter, header="question,answer"):
    rows = [header.split(","), *PAIRS]
    return "".join(
        delimiter.join(f'"{cell}"' if delimiter in cell else cell for cell in row) + "\r\n"
        for row in rows
    )


NLU = """version: "3.1"
nlu:
- intent: parcel
  examples: |
    - where is my [parcel](thing)
    - no parcel in [Berlin]{"entity": "city", "value": "B"}
- intent: faq/hours
  examples: |
    - when are you open
- intent: yes
  examples: |
    - yes
- intent: alone
  examples: |
    - nobody answers
"""
DOMAIN = f"""responses:
  utter_where:
  - text: "{PARCEL}"
    buttons: [{{title: a, payload: /b}}]
  - text: Yes
  utter_faq/hours:
  - text: {HOURS}
  utter_picture:
  - image: http://x.org/a.png
"""
RULES = """rules:
- rule: parcel
  steps:
  - intent: parcel
  - action: utter_where
"""
BOT = [
    Candidate(PARCEL, {"id": "utter_where", "variants": ["Yes"]}, "where",
              questions("where is my parcel", "no parcel in Berlin")),
    Candidate(HOURS, {"id": "utter_faq/hours"}, "faq hours", questions("when are you open")),
]  # fmt: skip
OLD_BOT = {
    "data/nlu.md": "## intent:parcel\n- where is my [parcel](thing)\n- no parcel\n\n## synonym:x\n- y\n",
    "data/responses.md": f"## ask hours\n* faq/hours\n  - {HOURS}\n",
    "data/stories.md": '## one\n* parcel{"thing": "x"}\n  - utter_where\n  - action_restart\n',
    "domain.yml": f"templates:\n  utter_where:\n  - text: {PARCEL!r}\n  - Soon.\nactions:\n- utter_where\n",
}
INTENTS = {
    "intents": [
        {
            "tag": "parcel",
            "patterns": ["where is it", "parcel"],
            "responses": [PARCEL, "Soon."],
            "context": [""],
        },
        {"tag": "opening_hours", "patterns": ["when"], "responses": HOURS},
        {"tag": "nothing", "patterns": ["x"], "responses": []},
    ]
}
OF_INTENTS = [
    Candidate(
        PARCEL,
        {"id": "parcel", "variants": ["Soon."]},
        "parcel",
        questions("where is it", "parcel"),
    ),
    Candidate(HOURS, {"id": "opening_hours"}, "opening hours", questions("when")),
]
AGENT = {
    "agent.json": json.dumps({"description": "", "language": "en"}),
    "package.json": '{"version": "1.0.0"}',
    "entities/city.json": "{}",
    "intents/parcel - where.json": json.dumps({
        "name": "parcel - where", "auto": True, "fallbackIntent": False,
        "responses": [{"action": "", "messages": [{"type": 0, "lang": "en", "speech": [PARCEL, "Soon."]}],
                       "speech": []}],
    }),
    "intents/parcel - where_usersays_en.json": json.dumps([
        {"id": "1", "data": [{"text": "where is my ", "userDefined": False},
                             {"text": "parcel", "alias": "thing", "meta": "@thing"}], "isTemplate": False},
    ]),
    "intents/hours.json": json.dumps({
        "name": "hours",
        "responses": [{"messages": [{"type": "0", "lang": "en", "speech": HOURS}, {"type": 4, "payload": {}},
                                    {"type": "0", "lang": "en", "speech": ["Come in."]}]}],
    }),
    "intents/empty.json": json.dumps({"name": "empty", "responses": [{"messages": []}]}),
    "intents/Default Fallback Intent.json": json.dumps({
        "name": "Default Fallback Intent", "auto": True, "contexts": [], "fallbackIntent": True,
        "responses": [{"messages": [{"type": "0", "lang": "en", "speech": ["What?", "Sorry?"]}]}],
    }),
    "intents/parcel - where - yes.json": json.dumps({
        "name": "parcel - where - yes", "contexts": ["parcel-where-followup"], "fallbackIntent": False,
        "parentId": "6b1", "rootParentId": "6b1", "responses": [{"messages": [{"type": "0", "speech": "Great."}]}],
    }),
    "intents/parcel - where - yes_usersays_en.json": json.dumps([{"data": [{"text": "yes"}], "isTemplate": False}]),
}  # fmt: skip
LEFT_OUT_OF_AGENT = {"intents without a response of text": 1, "fallback intents": 1, BOUND: 1}
OF_AGENT = [
    Candidate(f"{HOURS} Come in.", {"id": "hours", "messages": [HOURS, "Come in."]}, "hours"),
    Candidate(PARCEL, {"id": "parcel - where", "variants": ["Soon."]}, "parcel where",
              questions("where is my parcel")),
]  # fmt: skip
MACROS = {
    "macros": [
        {"id": 1, "title": "Parcel", "active": True,
         "actions": [{"field": "status", "value": "solved"}, {"field": "comment_value", "value": PARCEL}]},
        {"id": 2, "title": "Hours", "active": True,
         "actions": [{"field": "comment_value_html", "value": f"<p>{HOURS}</p>"}]},
        {"id": 3, "title": "Old", "active": False, "actions": [{"field": "comment_value", "value": "x"}]},
        {"id": 4, "title": "Note", "active": True,
         "actions": [{"field": "comment_value", "value": "x"}, {"field": "comment_mode_is_public", "value": "false"}]},
        {"id": 5, "title": "Parcel by chat", "active": True,
         "actions": [{"field": "comment_value", "value": ["channel:all", "Soon."]}]},
    ],
    "next_page": None, "count": 4,
}  # fmt: skip
ARTICLES = {
    "count": 3,
    "articles": [
        {"id": 7, "title": "When are you open?", "body": f"<h2>Shop</h2><p>{HOURS}</p>", "draft": False,
         "label_names": ["shop"], "html_url": "https://x.org/7"},
        {"id": 8, "title": "Parcels", "body": f"<div>{PARCEL}<br>Soon.</div>", "draft": False, "label_names": []},
        {"id": 9, "title": "New", "body": "<p>x</p>", "draft": True},
    ],
}  # fmt: skip
LD = {
    "@context": "https://schema.org", "@type": "FAQPage",
    "mainEntity": [{"@type": "Question", "name": "Open",
                    "acceptedAnswer": {"@type": "Answer", "text": f"<p>{HOURS}</p>"}},
                   {"@type": "Question", "name": "Parcel?", "acceptedAnswer": {"@type": "Answer", "text": PARCEL}}],
}  # fmt: skip
MARKDOWN = f"""---
title: FAQ
---
# Frequently asked

Welcome.

## Shop

### When are you open?

{HOURS}

- Sundays: closed

### Parcels
It is [on its way](http://x.org): look at the link, please.
"""
OF_MARKDOWN = [
    Candidate(
        f"{HOURS}\nSundays: closed",
        {"category": "Shop"},
        "When are you open?",
        questions("When are you open?"),
    ),
    Candidate(PARCEL.replace("way", "way (http://x.org)"), {"category": "Shop"}, "Parcels"),
]
HTML_FAQ = [
    Candidate(HOURS, {}, "When are you open?", questions("When are you open?")),
    Candidate(PARCEL, {}, "Parcels"),
]
QNA = [
    ["Question", "Answer", "Source", "Metadata", "SuggestedQuestions", "IsContextOnly", "Prompts", "QnaId"],
    ["Where is my parcel?", "It is on its way:\\nlook.", "faq.tsv", "team:shop", "[]", "False", "[]", "1"],
    ["\"Parcel\"?", "It is on its way:\\nlook.", "faq.tsv", "team:shop", "[]", "False", "[]", "1"],
    ["By mail?", "Yes.", "faq.tsv", "", "[]", "True", "[]", "2"],
    ["Through the post?", "Yes.", "faq.tsv", "", "[]", "True", "[]", "2"],
    ["Are you there?", "Yes.", "faq.tsv", "", "[]", "False", "[]", "3"],
]  # fmt: skip
OF_QNA = [
    Candidate("It is on its way:\nlook.",
              {"Source": "faq.tsv", "Metadata": "team:shop", "IsContextOnly": "False", "QnaId": "1"}, "",
              questions("Where is my parcel?", '"Parcel"?')),
    Candidate("Yes.", {"Source": "faq.tsv", "IsContextOnly": "False", "QnaId": "3"}, "", questions("Are you there?")),
]  # fmt: skip

WRITTEN = [
    Candidate(PARCEL, {}, "Where is my parcel?", questions("Where is my parcel?", "Parcel?")),
    Candidate(HOURS, {}, "When are you open?", questions("When are you open?")),
]
FILES = [
    File("a.txt", f"{PARCEL}\n\n  {HOURS} \r\n", "text", [Candidate(PARCEL), Candidate(HOURS)]),
    File("a.txt", "Text, call us\nName, please\nSorry, no\n", "text",
         [Candidate("Text, call us"), Candidate("Name, please"), Candidate("Sorry, no")], ": text, one reply a line"),
    File("a.txt", f"{PARCEL}\n{RETURN}".encode("utf-16"), "text", [Candidate(PARCEL), Candidate(RETURN)]),
    File("a.txt", RETURN.encode("cp1252"), "text", [Candidate(RETURN)], format="text,encoding=cp1252"),
    File("a.csv", delimited(","), "table", TABLE, "table (comma, utf-8): text = answer, questions = question"),
    File("a.txt", "question, answer\nWhen?, Now.\n", "table",
         [Candidate("Now.", {}, "", questions("When?"))], "(comma, utf-8): text =  answer"),
    File("a.csv", delimited(";", "Question,Answer"), "table", TABLE, "(semicolon, utf-8)"),
    File("a.tsv", delimited("\t"), "table", TABLE, "(tab, utf-8)"),
    File("a.txt", delimited("\t"), "table", TABLE, "(tab, utf-8)"),
    File("a.csv", delimited(",").encode("utf-8-sig"), "table", TABLE, "(comma, utf-8-sig)"),
    File("a.csv", delimited(",").encode("utf-16"), "table", TABLE, "(comma, utf-16)"),
    File("a.csv", f"Titel;Antwort\nRückgabe;{RETURN}\n".encode("cp1252"), "table",
         [Candidate(RETURN, {"Titel": "Rückgabe"}, "Rückgabe")], "(semicolon, cp1252): text = Antwort, title = Titel",
         column=("text=Antwort", "title=titel")),
    File("a.csv", "Where?,There.\nWhen?,Now.\n", "table",
         [Candidate("There.", {}, "", questions("Where?")),
          Candidate("Now.", {}, "", questions("When?"))],
         column=("text=2", "questions=1"), format="table,header=no"),
    File("canned.csv", f'short_code,content\nparcel,"{PARCEL}"\n', "table",
         [Candidate(PARCEL, {"short_code": "parcel"}, "parcel")], "text = content, title = short_code"),
    File("a.csv", "name,reply,tags\na,Hi,x\nb,,y\n", "table", [Candidate("Hi", {"name": "a", "tags": "x"}, "a")],
         dropped={"rows without a reply": 1}),
    File("a.xlsx", workbook([["About us", 1]], [["Question", "Answer", "No"], *[[*pair, 7.0] for pair in PAIRS]]),
         "table",
         [dataclasses.replace(reply, payload={"No": 7}) for reply in TABLE],
         "workbook, sheet S2: text = Answer, questions = Question"),
    File("a.parquet", parquet([row | {"id": 1} for row in ROWS]), "table",
         [dataclasses.replace(reply, payload={"id": 1}) for reply in TABLE],
         "Parquet: text = answer"),
    File("a.jsonl", "".join(map("{}\n".format, map(json.dumps, ROWS))), "json", TABLE, "JSON: text = answer, questions"),
    File("a.json", json.dumps(ROWS, indent=1), "json", TABLE),
    File("a.json", json.dumps({"version": 1, "faqs": ROWS}), "json", TABLE),
    File("a.json", json.dumps(["Hi!", "Bye."]), "json", [Candidate("Hi!"), Candidate("Bye.")]),
    File("a.jsonl", json.dumps({"Text": "Hi", "examples": ["a", ["b", "c"]], "short_code": "hi", "id": 7}) + "\n",
         "json",
         [Candidate("Hi", {"short_code": "hi", "id": 7}, "hi", (("a",), ("b", "c")))]),
    File("faq.txt", f"Our FAQ\n\nQ: Where is my parcel?\nQ: Parcel?\nA: {PARCEL}\n\nQ2: When are you open?\nA2: {HOURS}\n",
         "faq-text", WRITTEN, 'FAQ as text: "Q:" and "A:"'),
    File("faq.md", f"# FAQ\n\n**Q: Where is my parcel?**\n**Question:** Parcel?\n\n**A:** {PARCEL}\n\n"
         f"**Q:** When are you\nopen?\n\n**Answer**: {HOURS}\n", "faq-page", WRITTEN),
    File("faq.txt", f"FAQ\n\nOpening\n\n1. When are you open?\n{HOURS}\n\nCall us.\n\nParcels\n\n"
         f"2) Parcel?\n{PARCEL}\n{HOURS}\n", "faq-text",
         [Candidate(f"{HOURS}\n\nCall us.", {"category": "Opening"}, "When are you open?", questions("When are you open?")),
          Candidate(f"{PARCEL}\n{HOURS}", {"category": "Parcels"}, "Parcel?", questions("Parcel?"))], dropped={LINES_ABOVE: 1}),
    File("faq.txt", f"FAQ\n\nQ1) When are you open?\nA1) {HOURS}\n\nQ2) Parcel?\nA2) {PARCEL}\nR - soon\n", "faq-text",
         [Candidate(HOURS, {}, "When are you open?", questions("When are you open?")),
          Candidate(f"{PARCEL}\nR - soon", {}, "Parcel?", questions("Parcel?"))]),
    File("faq.txt", f"When are you open?\n{HOURS}\nHow long does it take?\n{PARCEL}\nCan I return it?\n{RETURN}\n", "faq-text",
         [Candidate(text, {}, asked, questions(asked)) for asked, text in (
             ("When are you open?", HOURS), ("How long does it take?", PARCEL), ("Can I return it?", RETURN))]),
    File("faq.md", f"# FAQ\n\n## Hours\n\n| Q | A |\n|---|---|\n| When? | {HOURS} |\n\n## Parcels\n\nQ: Parcel?\nA: {PARCEL}\n",
         "faq-page", [Candidate(HOURS, {"category": "Hours"}, "", questions("When?")),
                      Candidate(PARCEL, {"category": "Parcels"}, "Parcel?", questions("Parcel?"))], "by its tables and questions"),
    File("faq.md", f"1. When are you open?\n\n   {HOURS}\n\n2. Where is my parcel?\n\n   {PARCEL}\n", "faq-page",
         [Candidate(HOURS, {}, "When are you open?", questions("When are you open?")),
          Candidate(PARCEL, {}, "Where is my parcel?", questions("Where is my parcel?"))], "read by its questions"),
    File("faq.html", f"<table><tr><th>Question<th>Answer</tr><tr><td>When?<td rowspan=2>{HOURS}</tr><tr><td>Open?</tr></table>",
         "faq-page", [Candidate(HOURS, {}, "", questions("When?", "Open?"))], "read by its tables"),
    File("a.txt", f"Hello! How can I help?\n\n{PARCEL}\n\nAnything else?\n", "text",
         [Candidate("Hello! How can I help?"), Candidate(PARCEL), Candidate("Anything else?")]),
    File("a.txt", f"FAQ\n\nWhen are you open?\n\n{HOURS}\n\nWhere is my parcel?\n\n{PARCEL}\n\nReturns?\n\n{RETURN}\nBye.\n",
         "faq-text", [Candidate(text, {}, asked, questions(asked)) for text, asked in (
             (HOURS, "When are you open?"), (PARCEL, "Where is my parcel?"), (f"{RETURN}\nBye.", "Returns?"))]),
    File("faq.yaml", f"faqs:\n- question: Where is my parcel?\n  answer: {json.dumps(PARCEL)}\n"
         f"- questions: [When are you open?]\n  answer: {HOURS}\n- question: Parcel?\n  answer: {json.dumps(PARCEL)}\n",
         "yaml", TABLE),
    File("a.json", json.dumps({"Where is my parcel?": PARCEL, HOURS: ["When are you open?"], "Parcel?": PARCEL}),
         "json-mapping", TABLE),
    File("a.json", json.dumps({"parcels": ROWS[:1], "hours": ROWS[1:2], "more": ROWS[2:], "version": 2}, indent=1),
         "json", TABLE, "JSON: text = answer, questions = question"),
    File("a.json", json.dumps({"faq": [{"q": question, "a": answer} for question, answer in PAIRS]}), "json", TABLE),
    File("a.csv", f"Our FAQ of March,,\n,,\nQuestion,Answer,Owner\nWhen?,{HOURS},Ann\n", "table",
         [Candidate(HOURS, {"Owner": "Ann"}, "", questions("When?"))], "header in row 3: text = Answer, questions = Question"),
    File("a.csv", f"Q,A\nWhen?,{HOURS}\n", "table", [Candidate(HOURS, {}, "", questions("When?"))],
         "text = A, questions = Q"),
    File("a.csv", f"Our FAQ\nQuestion;Answer\nWhen?;{HOURS}\n", "table",
         [Candidate(HOURS, {}, "", questions("When?"))], "(semicolon, utf-8), header in row 2"),
    File("a.csv", f"Question 1,question_2,Suggested Reply,Message\nWhen?,Open?,{HOURS},x\n", "table",
         [Candidate(HOURS, {"Message": "x"}, "", questions("When?", "Open?"))],
         "text = Suggested Reply, questions = Question 1, question_2"),
    File("a.csv", f"Shortcut,Canned Response (EN),Sample questions\nhours,{HOURS},When?|Open?\n", "table",
         [Candidate(HOURS, {"Shortcut": "hours"}, "hours", questions("When?", "Open?"))]),
    File("a.csv", f"Subject,Message,Suggested reply\nhours,When?,{HOURS}\n", "table",
         [Candidate(HOURS, {"Subject": "hours"}, "hours", questions("When?"))], "text = Suggested reply, title = Subject, questions = Message"),
    File("a.json", json.dumps({"a": ROWS[:1], "b": [{"question": "When?", "reply": HOURS}, {"question": "Who?", "reply": None}],
                               "macros": [{"title": "Hi", "content": "x"}]}), "json",
         [Candidate(PARCEL, {}, "", questions("Where is my parcel?")), Candidate(HOURS, {}, "", questions("When?"))],
         dropped={"rows without a reply": 1}),
    File("a.json", f'{{"When?": "{HOURS}", "When?": "{PARCEL}", "Returns": "{RETURN}", "version": "2"}}', "json-mapping",
         [Candidate(HOURS, {}, "", questions("When?")), Candidate(PARCEL, {}, "", questions("When?")),
          Candidate(RETURN, {}, "Returns")], dropped={NO_SENTENCE: 1}),
    File("faq.yml", f"faq:\n  shop:\n  - answer: {HOURS}\n    examples: |\n      - When?\n      - Open?\n  more:\n"
         f"  - question: Parcel?\n    answer: {json.dumps(PARCEL)}\n", "yaml",
         [Candidate(HOURS, {"category": "shop"}, "", questions("When?", "Open?")),
          Candidate(PARCEL, {"category": "more"}, "", questions("Parcel?"))]),
    File("a.json", json.dumps([{"category": "Shop", "questions": [{"question": "When?", "answer": HOURS}]},
                               {"category": "Parcels", "questions": [{"question": "Parcel?", "answer": PARCEL}]}]), "json-categories",
         IN_CATEGORIES, "JSON of replies by category: text = answer, questions = question"),
    File("a.json", json.dumps({"faq": {"categories": [{"name": "Shop", "items": [{"q": "When?", "a": HOURS}, {"q": "Who?", "a": ""}]},
                                                      {"name": "Parcels", "items": [{"q": "Parcel?", "a": PARCEL}]}]}}, indent=1),
         "json-categories", IN_CATEGORIES, "text = a, questions = q", dropped={"rows without a reply": 1}),
    File("a.json", json.dumps({"Shop": {"When?": HOURS}, "Parcels": {"Parcel?": PARCEL}}), "json-categories", IN_CATEGORIES),
    File("a.json", json.dumps({"data": {"title": "Help", "faq": [{"question": "When?", "answer": HOURS}]}}), "json-categories",
         [Candidate(HOURS, {}, "", questions("When?"))]),
    File("a.yaml", f"- category: Shop\n  entries:\n  - question: When?\n    answer: {HOURS}\n- category: Parcels\n  entries:\n"
         f"  - question: Parcel?\n    answer: {json.dumps(PARCEL)}\n", "yaml", IN_CATEGORIES),
    File("bot", {"data/nlu.yml": NLU, "domain.yml": DOMAIN, "data/rules.yml": RULES, "config.yml": "a: 1\n"}, "rasa",
         BOT,
         dropped={"responses without a text": 1, "intents without a response of their name or in a rule": 2}),
    File("bot.zip", zipped({"bot/data/nlu.yml": NLU, "bot/domain.yml": DOMAIN, "bot/data/rules.yml": RULES}), "rasa",
         BOT,
         dropped={"responses without a text": 1, "intents without a response of their name or in a rule": 2}),
    File("domain.yml", DOMAIN, "rasa", [dataclasses.replace(reply, examples=()) for reply in BOT],
         dropped={"responses without a text": 1}),
    File("old", OLD_BOT, "rasa",
         [Candidate(HOURS, {"id": "utter_faq/hours"}, "faq hours"),
          Candidate(PARCEL, {"id": "utter_where", "variants": ["Soon."]}, "where",
                    questions("where is my parcel", "no parcel"))]),
    File("intents.json", json.dumps(INTENTS, indent=2), "intents-json", OF_INTENTS,
         dropped={"intents without a response": 1}),
    File("a.json", json.dumps(INTENTS["intents"]), "intents-json", OF_INTENTS,
         dropped={"intents without a response": 1}),
    File("agent.zip", zipped(AGENT), "dialogflow", OF_AGENT, dropped=LEFT_OUT_OF_AGENT),
    File("agent", AGENT, "dialogflow", OF_AGENT, dropped=LEFT_OUT_OF_AGENT),
    File("macros.json", json.dumps(MACROS), "zendesk-macros",
         [Candidate(PARCEL, {"id": 1}, "Parcel"), Candidate(HOURS, {"id": 2}, "Hours"),
          Candidate("Soon.", {"id": 5}, "Parcel by chat")],
         dropped={INACTIVE: 1, "entries without a text": 1}),
    File("a.json", json.dumps(ARTICLES), "help-center",
         [Candidate(f"Shop\n{HOURS}", {"id": 7, "label_names": ["shop"], "html_url": "https://x.org/7"},
                    "When are you open?", questions("When are you open?")),
          Candidate(f"{PARCEL}\nSoon.", {"id": 8}, "Parcels")], dropped={"drafts": 1}),
    File("a.json", json.dumps({"type": "list", "data": [
        {"type": "article", "id": "1", "title": "Hours", "body": f"<p>{HOURS}</p>", "state": "published"},
        {"type": "article", "id": "2", "title": "x", "body": "<p>x</p>", "state": "draft"}]}), "help-center",
        [Candidate(HOURS, {"id": "1"}, "Hours")], dropped={"drafts": 1}),
    File("a.json", json.dumps([
        {"id": 1, "title": "Hours", "description": f"<p>{HOURS}</p>", "description_text": HOURS, "status": 2,
         "folder_id": 3, "tags": []}]), "help-center", [Candidate(HOURS, {"id": 1, "folder_id": 3}, "Hours")]),
    File("a.json", json.dumps([
        {"id": 1, "title": "Hours", "content": HOURS, "content_html": f"<p>{HOURS}</p>", "folder_id": 3}]),
        "freshdesk-canned", [Candidate(HOURS, {"id": 1, "folder_id": 3}, "Hours")]),
    File("a.json", json.dumps([{"id": 1, "account_id": 2, "short_code": "hours", "content": HOURS}]),
         "chatwoot-canned", [Candidate(HOURS, {"id": 1}, "hours")]),
    File("a.json", json.dumps({"type": "list", "data": [
        {"type": "macro", "id": "1", "name": "Hours", "body": f"<p>{HOURS}</p>", "body_text": HOURS}]}),
        "intercom-macros", [Candidate(HOURS, {"id": "1"}, "Hours")]),
    File("knowledge.tsv", "".join("\t".join(row) + "\r\n" for row in QNA), "qna-maker", OF_QNA, dropped={BOUND: 1}),
    File("knowledge.xlsx", workbook(QNA), "qna-maker", OF_QNA, dropped={BOUND: 1}),
    File("a.json", json.dumps({"qnaList": [{"id": 1, "answer": HOURS, "questions": ["When?", "Open?"]}]}), "json",
         [Candidate(HOURS, {"id": 1}, "", questions("When?", "Open?"))]),
    File("faq.md", MARKDOWN, "faq-page", OF_MARKDOWN, "read by its headings"),
    File("faq.md", f"**When are you open?**\n\n{HOURS}\n\n**Note**\n\n**Parcel?**\n\n{PARCEL}\n", "faq-page",
         [Candidate(f"{HOURS}\nNote", {}, "When are you open?", questions("When are you open?")),
          Candidate(PARCEL, {}, "Parcel?", questions("Parcel?"))]),
    File("faq.md", f"**When are you open?**\n{HOURS}\n\n**Parcel?** {PARCEL}\n", "faq-page",
         [Candidate(HOURS, {}, "When are you open?", questions("When are you open?")),
          Candidate(PARCEL, {}, "Parcel?", questions("Parcel?"))]),
    File("faq.md", f"# FAQ\n\n| Question | Answer |\n|---|---|\n| When? | {HOURS} |\n| Parcel? | **{PARCEL}** |\n",
         "faq-page", [Candidate(HOURS, {}, "", questions("When?")), Candidate(PARCEL, {}, "", questions("Parcel?"))],
         "read by its tables"),
    File("faq.html", f"<html><head><title>x</title></head><body><nav>Menu</nav><h1>FAQ</h1><p>Welcome</p>"
         f"<h2>When are you <b>open</b>?</h2><p>{HOURS}</p><h2>Parcels</h2>{PARCEL}<footer>Imprint</footer></body>",
         "faq-page", HTML_FAQ, "read by its headings"),
    File("faq.html", f"<dl><dt>When are you open?</dt><dd>{HOURS}</dd><dt>Parcels</dt><dd>{PARCEL}</dd></dl>",
         "faq-page", HTML_FAQ, "read by its definition lists"),
    File("faq.html", f"<details><summary>When are you open?</summary><p>{HOURS}</p></details>"
         f"<details><summary>Parcels</summary>{PARCEL}</details>", "faq-page", HTML_FAQ, "read by its details"),
    File("faq.htm", f'<!doctype html><script type="application/ld+json">{json.dumps([LD])}</script><h1>a</h1>',
         "faq-page",
         [Candidate(HOURS, {}, "Open", questions("Open")), Candidate(PARCEL, {}, "Parcel?", questions("Parcel?"))],
         "schema.org"),
    File("faq.html", '<div itemscope itemtype="https://schema.org/FAQPage"><div itemprop="mainEntity" itemscope '
         'itemtype="https://schema.org/Question"><h3 itemprop="name">Open</h3><div itemprop="acceptedAnswer" itemscope '
         f'itemtype="https://schema.org/Answer"><p itemprop="text">{HOURS}</p></div></div></div>', "faq-page",
         [Candidate(HOURS, {}, "Open", questions("Open"))], "schema.org"),
]  # fmt: skip


FILES += [File(name, content, form, read, dropped=dropped) for name, content, form, read, dropped in TOOL_FILES]
COMMAS = next(file for file in FILES if file.notes.startswith("table (comma"))


def write(folder, file):
    path = folder / file.name
    if isinstance(file.content, dict):
        for name, text in file.content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text, encoding="utf-8")
    elif isinstance(file.content, str):
        path.write_text(file.content, encoding="utf-8", newline="")
    else:
        path.write_bytes(file.content)
    return path


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.form}-{file.name}")
def test_replies_are_read_by_content_alone(tmp_path, file):
    path = write(tmp_path, file)
    reading = Reading()
    choice = parse_choice(file.format, ",".join(file.column))
    assert list(read_candidates(path, choice=choice, reading=reading)) == file.wanted
    assert file.notes in reading.notes[0]
    assert reading.dropped == file.dropped
    assert find_form(path, choice, "replies")[0].name == file.form


OF_REPLIES = [form for form in FORMS.values() if form.holds == "replies"]


@pytest.mark.parametrize("form", OF_REPLIES, ids=lambda form: form.name)
def test_each_form_has_a_file_here_and_says_how_it_is_exported(form):
    assert any(file.form == form.name for file in FILES)
    assert form.export


def test_a_field_without_a_name_is_neither_title_nor_question(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text(f'{{"text": "{HOURS}", "": "note"}}\n{{"text": "{RETURN}", "": 7}}\n', encoding="utf-8")
    assert list(read_candidates(path)) == [Candidate(HOURS, {"": "note"}), Candidate(RETURN, {"": 7})]


def test_an_entry_with_a_list_is_one_reply(tmp_path):
    """Neither attachments nor related records make a category of it."""
    path = tmp_path / "a.yaml"
    record = {"question": "When?", "answer": HOURS, "files": [{"name": "a", "content": "b"}], "more": {"team": "x"}}
    path.write_text(json.dumps([record, {"question": "Who?", "links": ["a"]}]), encoding="utf-8")
    reading = Reading()
    (reply,) = read_candidates(path, choice=parse_choice("yaml"), reading=reading)
    assert (reply.text, reply.payload) == (HOURS, {"files": record["files"], "more": record["more"]})
    assert reading.dropped == {"rows without a reply": 1}


def test_a_reply_that_holds_others_is_one_too(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"id": 1, "text": PARCEL, "more": [{"question": "When?", "answer": HOURS}]}]), encoding="utf-8")
    first, second = read_candidates(path)
    assert (first.text, first.payload) == (PARCEL, {"id": 1})
    assert (second.text, second.examples) == (HOURS, questions("When?"))


def test_of_an_entry_only_the_records_in_it_are_others(tmp_path):
    path = tmp_path / "a.yaml"
    record = {"question": "When?", "answer": HOURS, "more": [{"question": "Parcel?", "answer": PARCEL}], "meta": {"id": 5}}
    path.write_text(json.dumps([record]), encoding="utf-8")
    first, second = read_candidates(path, choice=parse_choice("yaml"))
    assert (first.text, first.payload["meta"], "more" in first.payload) == (HOURS, {"id": "5"}, False)
    assert (second.text, second.examples) == (PARCEL, questions("Parcel?"))


def test_odd_entries_among_questions_cost_no_others(tmp_path):
    path = tmp_path / "a.json"
    shop = {"When?": HOURS, "Who?": None, "Where?": {"answer": "Here.", "id": 3}, "Why?": ["So.", "Just so."], "Returns": RETURN}
    path.write_text(json.dumps({"Shop": shop, "Parcels": {"Parcel?": PARCEL, "Late?": 7, "Lost?": "Wait."}}), encoding="utf-8")
    reading = Reading()
    replies = {reply.text: reply for reply in read_candidates(path, reading=reading)}
    assert [*replies] == [HOURS, "Here.", "So.", RETURN, PARCEL, "Wait."]
    assert replies["Here."].payload == {"category": "Shop", "id": 3}
    assert replies["So."].payload == {"category": "Shop", "variants": ["Just so."]}
    assert (replies[RETURN].title, replies[RETURN].examples) == ("Returns", ())
    assert reading.dropped == {"rows without a reply": 2}


def test_the_names_of_several_lists_are_categories_below_a_title(tmp_path):
    path = tmp_path / "a.json"
    lists = {"Hours": {"faq": [{"q": "When?", "a": HOURS}]}, "Parcels": {"faq": [{"q": "Parcel?", "a": PARCEL}]}}
    path.write_text(json.dumps({"name": "Shop", **lists}), encoding="utf-8")
    assert [reply.payload["category"] for reply in read_candidates(path)] == ["Hours", "Parcels"]


def test_counts_of_replies_are_no_replies(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("title,actions,replies\nHours,We open at nine.,3\nParcels,Soon.,5\n", encoding="utf-8")
    assert [reply.text for reply in read_candidates(path)] == ["We open at nine.", "Soon."]
    path.write_text("question,replies\nWhen?,3\nWhere?,5\n", encoding="utf-8")
    with pytest.raises(InputError, match="no column text"):
        list(read_candidates(path))


def test_references_of_yaml_are_read_once(tmp_path):
    path = tmp_path / "a.yaml"
    lists = "".join(f"b{number}: &b{number}\n- x: *b{number - 1}\n  y: *b{number - 1}\n" for number in range(1, 40))
    path.write_text(f"b0: &b0\n- question: When?\n  answer: {HOURS}\n{lists}", encoding="utf-8")
    assert [reply.text for reply in read_candidates(path)] == [HOURS]


HEADERS = [
    "Frage;Antwort;Kategorie", "FRAGEN;Antworten;x", "Question;Réponse;x", "Vraag;Antwoord;x", "Pregunta;Respuesta;x",
    "Pergunta;Resposta;x", "Domanda;Risposta;x", "Pytanie;Odpowiedź;x", "Questions;Answers;x", "Question;Responses;x",
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS)
def test_tables_may_name_their_columns_in_other_languages(tmp_path, header):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\nWo?;Hier.;a\nWann?;Jetzt.;b\n", encoding="utf-8")
    replies = list(read_candidates(path))
    assert [(reply.examples, reply.text) for reply in replies] == [((("Wo?",),), "Hier."), ((("Wann?",),), "Jetzt.")]
    assert [list(reply.payload.values()) for reply in replies] == [["a"], ["b"]]
    cells = "".join(f"<td>{cell}</td>" for cell in header.split(";"))
    page = tmp_path / "a.html"
    page.write_text(f"<table><tr>{cells}</tr><tr><td>Wo?</td><td>Hier.</td><td>a</td></tr></table>", encoding="utf-8")
    assert [(reply.examples, reply.text) for reply in read_candidates(page)] == [((("Wo?",),), "Hier.")]


def test_an_english_name_is_the_reply_beside_one_of_another_language(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("question,answer,Antwort\nWhere?,Here.,Hier.\n", encoding="utf-8")
    (reply,) = read_candidates(path)
    assert (reply.text, reply.payload) == ("Here.", {"Antwort": "Hier."})
