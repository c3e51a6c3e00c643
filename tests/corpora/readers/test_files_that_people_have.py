"""Files that were misread in silence: `sep=`, repeated headers, entries not in use, customers' words, pages in the wild."""

import json

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.corpora.forms.csv_pairs import read_csv
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.pages.linked_data import parse_leniently
from rejoinder.corpora.registry.recognition import find_form
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.registry.sources import read_settings
from rejoinder.corpora.registry.chats import CHATS, ChatsSettings, read_chats
from rejoinder.corpora.forms.choice import Choice, parse_choice
from rejoinder.errors import InputError
from rejoinder.intents.reading.texts import read_intents
from tests.corpora.readers.tool_files import INACTIVE, RAIN, TAP, asked


def _write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def _read(path, choice=None):
    reading = Reading()
    return list(read_candidates(path, choice=choice, reading=reading)), reading


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "^"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("first", ["sep={}", "SEP={}", '"sep={}"'])
def test_excels_first_line_names_the_delimiter(tmp_path, delimiter, encoding, first):
    rows = [[first.format(delimiter)], ["answer", "question"], [TAP, "How?"], [RAIN, "How much?"]]
    text = "\r\n".join(delimiter.join(row) for row in rows)
    read, reading = _read(_write(tmp_path, "a.csv", text.encode(encoding)))
    assert read == [Candidate(TAP, {}, "", asked("How?")), Candidate(RAIN, {}, "", asked("How much?"))]
    assert "text = answer, questions = question" in reading.notes[0]


def test_excels_first_line_in_every_table_of_texts(tmp_path):
    pairs = _write(tmp_path, "p.csv", f"sep=;\ncontext;response\nHow?;{TAP}\ncontext;response\nHow much?;{RAIN}\n")
    reading = Reading()
    assert [(each.context, each.response) for each in read_csv(pairs, reading)] == [
        (("How?",), TAP), (("How much?",), RAIN)]  # fmt: skip
    assert reading.dropped == {"repeated headers": 1}
    intents = _write(tmp_path, "i.csv", "sep=,\ntext,label\nopen it,tap\ntext,label\nhow much,rain\n")
    assert read_intents(intents).texts == ("open it", "how much")
    chats = _write(tmp_path, "m.csv", f"sep=;\nconversation;author;text\n1;Customer;How?\n1;Shop;{TAP}\n"
                                      "conversation;author;text\n2;Customer;Hm?\n2;Shop;Yes.\n")  # fmt: skip
    settings = ChatsSettings(agent="Shop")
    assert [each.response for each in read_chats(chats, Reading(), settings)] == [TAP, "Yes."]


def test_a_text_that_begins_like_excels_line_is_a_reply_in_a_text(tmp_path):
    assert _read(_write(tmp_path, "a.txt", "sep=; is a line of Excel\nHello\n"))[0][0].text.startswith("sep=")


@pytest.mark.parametrize(("name", "content"), [
    ("a.csv", f"name,content,active\nTap,{TAP},true\nOld,Gone.,false\n"),
    ("a.csv", f"title;text;status\nTap;{TAP};published\nOld;Gone.;draft\n"),
    ("a.json", json.dumps({"payload": [{"question": "How?", "answer": TAP, "status": "approved"},
                                       {"question": "x", "answer": "Gone.", "status": "pending"}]})),
    ("a.jsonl", json.dumps({"text": TAP, "enabled": True}) + "\n" + json.dumps({"text": "Gone.", "enabled": False})),
    ("a.json", json.dumps({"macros": [
        {"title": "a", "active": True, "actions": [{"field": "comment_value", "value": TAP}]},
        {"title": "b", "active": False, "actions": [{"field": "comment_value", "value": "Gone."}]}]})),
])  # fmt: skip
def test_what_is_not_in_use_is_left_out_unless_it_is_asked_for(tmp_path, name, content):
    path = _write(tmp_path, name, content)
    read, reading = _read(path)
    assert [reply.text for reply in read] == [TAP]
    assert reading.dropped == {INACTIVE: 1}
    kept, reading = _read(path, parse_choice("", "", "keep"))
    assert [reply.text for reply in kept] == [TAP, "Gone."]
    assert not reading.dropped
    with pytest.raises(InputError, match="inactive=x: it is keep or drop"):
        parse_choice("", "", "x")


def test_macros_whose_text_is_in_json_within_a_cell(tmp_path):
    actions = [{"field": "status", "value": "solved"}, {"field": "comment_value", "value": TAP}]
    cell = json.dumps(actions).replace('"', '""')
    for header, choice in (("title,actions_json", None), ("title,macro", parse_choice("", "text=macro"))):
        path = _write(tmp_path, "a.csv", f'{header}\nTap,"{cell}"\n')
        assert [reply.text for reply in _read(path, choice)[0]] == [TAP]


LUIS = {"luis_schema_version": "7.0.0", "intents": [{"name": "Tap"}],
        "utterances": [{"text": "open it", "intent": "Tap", "entities": []}]}  # fmt: skip
WIT = {"utterances": [{"text": "open it", "intent": "tap", "entities": [], "traits": []}]}
RASA_JSON = {"rasa_nlu_data": {"common_examples": [{"text": "open it", "intent": "tap", "entities": []}]}}
WATSON = {"intents": [{"intent": "tap", "examples": [{"text": "open it"}]}], "counterexamples": [{"text": "sing"}]}


@pytest.mark.parametrize(("name", "content", "told"), [
    ("a.json", json.dumps(LUIS), "LUIS.*messages that people wrote.*intents train"),
    ("a.json", json.dumps(WIT), "wit.ai.*messages that people wrote.*intents train"),
    ("a.json", json.dumps(RASA_JSON), "Rasa's training data.*intents train"),
    ("a.json", json.dumps(WATSON), "Watson Assistant without a dialog.*intents train"),
    ("a.json", json.dumps({"workspace": {"actions": [{"steps": [{"output": {}}]}], "intents": []}}), "an actions skill"),
    ("a.lu", "# Tap\n- open it\n- turn it\n", "[.]lu utterances.*intents train"),
    ("a.csv", "text,intent\nopen it,tap\n", "field intent these are messages that people wrote.*columns=text=text"),
    ("a.jsonl", '{"message": "open it", "sender": "Bea"}\n', "field sender these are .*data chats"),
    ("a.yml", "key:\n  - a: 1\n", "looks like YAML.*columns answer and question"),
    ("a.json", '{\n "a": {\n  "b": 1}}', "looks like JSON.*columns answer and question"),
])  # fmt: skip
def test_what_is_no_reply_is_refused_by_name_with_a_way_out(tmp_path, name, content, told):
    path = _write(tmp_path, name, content)
    with pytest.raises(InputError, match=told) as refused:
        list(read_candidates(path))
    assert "format=text" not in str(refused.value)


def test_a_named_column_is_read_whatever_stands_beside_it(tmp_path):
    path = _write(tmp_path, "a.csv", f"text,intent\n{TAP},tap\n")
    assert [reply.text for reply in _read(path, parse_choice("", "text=text"))[0]] == [TAP]


@pytest.mark.parametrize("content", [LUIS, WIT, {"intents": WATSON["intents"]}, RASA_JSON])
def test_utterances_are_read_for_intents(tmp_path, content):
    path = _write(tmp_path, "a.json", json.dumps(content))
    data = read_intents(path)
    assert data.texts == ("open it",)
    assert data.labels[0][0].lower() == "tap"


def test_rasas_free_variant_is_the_reply(tmp_path):
    path = _write(tmp_path, "domain.yml", f"""responses:
  utter_tap:
  - condition: [{{type: slot, name: vip, value: true}}]
    text: We open it for you.
  - text: Say tap.
    channel: voice
  - text: {TAP}
  utter_voice:
  - text: Beep.
    channel: voice
""")
    read, reading = _read(path)
    assert read == [Candidate(TAP, {"id": "utter_tap"}, "tap")]
    assert reading.dropped == {"variants of responses that are bound to a slot or a channel": 3}


def _page(script, kind="application/ld+json", body="<h1>Shop</h1><h2>News</h2><p>Rain is free.</p>"):
    return f'<!doctype html><html><head><script type="{kind}">{script}</script></head><body>{body}</body></html>'


ENTRY = '{"@type":"Question","name":"How does it open?","acceptedAnswer":{"@type":"Answer","text":"Turn it%sto the left."}}'
PAGE = '{"@context":"https://schema.org","@type":"FAQPage","mainEntity":[%s]}'
PLAIN = PAGE % (ENTRY % " ")


@pytest.mark.parametrize("page", [
    _page(PAGE % (ENTRY % "\n")),
    _page(PAGE % (ENTRY % "\t")),
    _page(PAGE % (ENTRY % " " + ",")),
    _page(PLAIN[:-1] + ",}"),
    _page(f"//<![CDATA[\n{PLAIN}\n//]]>"),
    _page(f"/*<![CDATA[*/{PLAIN}/*]]>*/"),
    _page(f"<!-- {PLAIN} -->"),
    _page(f"{PLAIN};"),
    _page(PLAIN, "application/ld+json; charset=utf-8"),
    _page(PLAIN, " Application/LD+JSON"),
    _page(PLAIN.replace('"Question"', '["Question"]').replace('"FAQPage"', '["WebPage", "FAQPage"]')),
    _page(PLAIN.replace('"Question"', '"https://schema.org/Question"')),
    _page('{"@graph":[{"@type":"WebPage","mainEntity":[]},' + PLAIN + "]}"),
])  # fmt: skip
def test_faq_pages_as_they_are_in_the_wild(tmp_path, page):
    read, reading = _read(_write(tmp_path, "a.html", page))
    assert [(" ".join(reply.text.split()), reply.examples) for reply in read] == [
        ("Turn it to the left.", asked("How does it open?"))]  # fmt: skip
    assert "schema.org markup" in reading.notes[0]


def test_markup_that_cannot_be_read_is_told(tmp_path):
    read, reading = _read(_write(tmp_path, "a.html", _page(PLAIN[:-4])))
    assert [reply.text for reply in read] == ["Rain is free."]
    assert "schema.org's markup in it is not JSON" in reading.notes[1]


def test_commas_and_comments_within_texts_stay():
    assert parse_leniently('{"a": ["x,]", "/* y */ ,}",], /* z */ "b": "\\",]",}') == {
        "a": ["x,]", "/* y */ ,}"], "b": '",]'}  # fmt: skip


@pytest.mark.parametrize(("text", "wanted", "told"), [
    ("# How does it open?\nLeft.\n\n## How much?\nLots.\n", ["Left.", "Lots."], ""),
    ("# Taps\nLeft.\n\n## Rain\nLots.\n", ["Left.", "Lots."], ""),
    ("# Garden FAQ\nWelcome.\n\n## Rain\nLots.\n", ["Lots."], "below the page's title was left out: 'Welcome.'"),
    ("# Garden\nWelcome.\n\n## Rain?\nLots.\n", ["Lots."], "below the page's title was left out: 'Welcome.'"),
    ("# Garden\n\n## Rain?\nLots.\n", ["Lots."], ""),
])  # fmt: skip
def test_a_heading_with_text_is_an_entry_or_the_loss_is_told(tmp_path, text, wanted, told):
    read, reading = _read(_write(tmp_path, "a.md", text))
    assert [reply.text for reply in read] == wanted
    assert told in " ".join(reading.notes)


def _facebook(text):
    return text.encode().decode("latin-1")


def test_messenger_in_both_forms_and_as_a_flat_list(tmp_path):
    shop, customer, question, answer = "Café Hahn", "Zoë", "Dreht er schön?", "Nach links 👍"
    whole = {"participants": [{"name": _facebook(shop)}, {"name": _facebook(customer)}], "title": _facebook(customer),
             "messages": [{"sender_name": _facebook(shop), "timestamp_ms": 2000, "content": _facebook(answer)},
                          {"sender_name": _facebook(shop), "timestamp_ms": 1900, "photos": []},
                          {"sender_name": _facebook(customer), "timestamp_ms": 1000, "content": _facebook(question)}]}
    sealed = {"participants": [shop, customer], "threadName": customer,
              "messages": [{"senderName": customer, "timestamp": 1000, "text": question, "isUnsent": False},
                           {"senderName": shop, "timestamp": 2000, "text": answer, "isUnsent": False},
                           {"senderName": shop, "timestamp": 3000, "text": "Oops", "isUnsent": True}]}
    flat = [{"sender": each["sender_name"], "content": each["content"], "timestamp": each["timestamp_ms"],
             "conversation": "1"} for each in whole["messages"] if "content" in each]  # fmt: skip
    for content, form in ((whole, "messenger"), (sealed, "messenger"), (flat, "messages")):
        path = _write(tmp_path, "message_1.json", json.dumps(content))
        assert find_form(path, Choice(), "chats")[0].name == form
        [example] = read_chats(path, Reading(), ChatsSettings(agent=shop if form == "messages" else ""))
        assert (example.context, example.response) == ((question,), answer)


def test_latin_1_that_is_none_of_utf_8_stays(tmp_path):
    rows = [{"sender": "Zoë", "content": "Schön", "conversation": 1}, {"sender": "Shop", "content": "Já", "conversation": 1}]
    path = _write(tmp_path, "a.json", json.dumps(rows))
    [example] = read_chats(path, Reading(), ChatsSettings(agent="Shop"))
    assert (example.context, example.response) == (("Schön",), "Já")


def test_an_answer_of_slacks_api_is_a_chat(tmp_path):
    messages = [{"type": "message", "user": "U1", "text": "How?", "ts": "1790000000.1"},
                {"type": "message", "user": "U2", "text": TAP, "ts": "1790000060.1"}]  # fmt: skip
    path = _write(tmp_path, "a.json", json.dumps({"ok": True, "messages": messages, "has_more": False}))
    assert find_form(path, Choice(), "chats")[0].name == "slack"
    [example] = read_chats(path, Reading(), ChatsSettings(agent="U2"))
    assert (example.context, example.response) == (("How?",), TAP)
    with pytest.raises(InputError, match=r"looks like chats \(Slack export\)"):
        list(read_candidates(path))


@pytest.mark.parametrize("name", ["+49 30 1234567", "Anna (Support)", "Müller, Anna", "123", "true", "a=b", "[Shop]",
                                  '"Quoted"'])  # fmt: skip
def test_a_setting_that_is_a_text_takes_it_as_it_is(tmp_path, name):
    settings = read_settings(CHATS, [f"agent={name}", "redact=true"])
    assert settings == ChatsSettings(agent=name.strip('"'), redact=True)
    rows = [{"author": "Bea", "text": "How?", "conversation": 1}, {"author": settings.agent, "text": TAP, "conversation": 1}]
    path = _write(tmp_path, "a.json", json.dumps(rows))
    [example] = read_chats(path, Reading(), settings)
    assert example.response == TAP
