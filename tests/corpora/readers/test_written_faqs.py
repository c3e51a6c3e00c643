"""FAQs as people write them, and the lists, pages and tables that look like one and are none."""

import csv
import json

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.answers.mapping import NO_SENTENCE
from rejoinder.corpora.readers.answers.question_cells import listed_questions, split_questions
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.registry.faq import FaqSettings, read_faq
from rejoinder.corpora.forms.choice import Choice
from rejoinder.errors import InputError


def read(path, text, reading=None):
    path.write_text(text, encoding="utf-8")
    return list(read_candidates(path, reading=reading or Reading()))


def pairs(replies):
    return [([text for (text,) in reply.examples], reply.text) for reply in replies]


CANNED = [
    "How can I help you today?\nWhat can I do for you?\nHello, thanks for contacting us.\n\n"
    "Could you tell me your order number?\nPlease send me your order number.\n",
    "".join(f"Reply {number}.\n\n" for number in range(20))
    + "Is it urgent?\nI will look.\n\nDoes it still hurt?\nI am sorry.\n",
    "".join(f"Reply {number}.\n" for number in range(50)) + "Question: what is it?\nAnswer: soon.\n",
    "Thank you for writing.\nQuestion: have you tried to restart?\nI will pass this on.\nA. Smith will call you.\n",
    "Hi! How can I help you today?\n\nThanks for waiting.\n\nCould you send me your order number?\n\n"
    "I have refunded it.\n\nIs there anything else I can do for you?\n\nHave a nice day!\n",
    "Hallo, wie kann ich Ihnen helfen?\n\nEinen Moment bitte.\n\nKann ich sonst noch etwas für Sie tun?\n\n"
    "Danke für Ihre Anfrage.\n\nWie lautet Ihre Bestellnummer?\n\nIch sehe nach.\n",
    "Bonjour, comment puis-je vous aider ?\n\nUn instant.\n\nQuel est votre numéro ?\n\nMerci.\n\nAutre chose ?\n\nAu revoir.\n",
    "Which browser do you use?\n\nPlease clear your cache.\n\nDoes the error show on every page?\n\nWe are looking into it.\n\n"
    "Is this still happening?\n\nThanks for confirming.\n",
    "What error message appears?\n\nPlease restart it.\n\nIs the device plugged in?\n\nWe have escalated it.\n\n"
    "When did it last work?\n\nThank you for your patience.\n",
    "Dzień dobry, w czym mogę pomóc?\n\nChwileczkę.\n\nCzy to wszystko?\n\nDziękuję.\n\nJaki jest numer?\n\nSprawdzam.\n",
    "Wie kann ich Ihnen helfen?\nGuten Tag.\n\nWie lautet Ihre Bestellnummer?\nDanke.\n\nKönnen Sie mir ein Foto schicken?\nMoment.\n",
    "Pouvez-vous me donner votre numéro ?\nMerci.\n\nAvez-vous essayé ?\nBien.\n\nPuis-je vous aider ?\nBonjour.\n",
    "What size do you wear?\nWe will send the right one.\n\nReady to try it out?\nStart for free.\n",
    "Q4: we are closed from 24 to 31 December.\nA. Our address is 1 Mill Lane.\nBye.\n",
    "Q. Public has left us.\nA. Smith will call you.\nQ. Anything?\n",
    "A) Yes, we do.\nB) No, we do not.\nQ) Please hold on.\nA) Thank you.\n",
]


@pytest.mark.parametrize("text", CANNED)
def test_lists_of_canned_replies_stay_lists(tmp_path, text):
    replies = read(tmp_path / "a.txt", text)
    assert [reply.text for reply in replies] == [line for line in text.splitlines() if line]


PAID, SOON, SENT = (["How do I pay?"], "By card."), (["How long does it take?"], "Two days."), (["Can I return it?"], "Yes.")
WRITTEN = {
    "Q: Where?\nA: Here.\n\nQ: Who?\n\nQ: When?\nQ: At what time?\nA: Now.\nb) or later.\n": [
        (["Where?"], "Here."), (["When?", "At what time?"], "Now.\nb) or later.")],
    "Question : Où ?\nRéponse : Ici.\n\nQuestion : Quand ?\nRéponse : Demain.\n": [(["Où ?"], "Ici."), (["Quand ?"], "Demain.")],
    "F: Wo?\nA: Hier.\n\nF: Wann?\nA: Morgen.\n": [(["Wo?"], "Hier."), (["Wann?"], "Morgen.")],
    "Q - Where?\nA - Here.\n-----\nQ - When?\nA - Now.\n": [(["Where?"], "Here."), (["When?"], "Now.")],
    "Where is my lamp?\nWhen will it come?\nHow do I pay?\n\nWhere is my lamp?\nHere.\nBest regards\n\nhttps://x.example\n\n"
    "When will it come?\n\nDo you ship it?\nSoon.\n\nHow do I pay?\nBy card.\n": [
        (["Where is my lamp?"], "Here.\nBest regards\n\nhttps://x.example"),
        (["When will it come?", "Do you ship it?"], "Soon."), (["How do I pay?"], "By card.")],
    "Q. How do I pay?\nA. By card.\n": [PAID],
    "FAQ\n\nQ. How do I pay?\nA. By card.\n\nQ. How long does it take?\nA. Two days.\n": [PAID, SOON],
    "Q1) How do I pay?\nA1) By card.\n\nQ2) How long does it take?\nA2) Two days.\n": [PAID, SOON],
    "Q) How do I pay?\nA) By card.\nA) Or not.\n": [(["How do I pay?"], "By card.\nA) Or not.")],
    "Q: Which sizes?\nA: We have:\nR - regular\nF - full\n\nQ: How long does it take?\nA: Two days.\n": [
        (["Which sizes?"], "We have:\nR - regular\nF - full"), SOON],
    "Q: Which plan?\nA: Plan\nA - basic plan\nB - pro plan\n": [(["Which plan?"], "Plan\nA - basic plan\nB - pro plan")],
    "Q: How do I pay?\nA: By card.\n\nF: Wie lange?\nA: Zwei Tage.\n": [PAID, (["Wie lange?"], "Zwei Tage.")],
    "Welcome to our FAQ.\nRead it.\nIt helps.\nA lot.\nOr two.\n\nQ: How do I pay?\nA: By card.\n\n"
    "Q: How long does it take?\nA: Two days.\n": [PAID, SOON],
    "How do I pay?\nBy card.\nHow long does it take?\nTwo days.\n\nCan I return it?\nYes.\n": [PAID, SOON, SENT],
    "How do I pay?\nBy card.\nHow long does it take?\nTwo days.\nCan I return it?\nYes.\n": [PAID, SOON, SENT],
    "How do I reset my phone?\n\nPress it.\n\nThen wait. Does it blink?\n\nIt is ready.\n\nHow do I pay?\n\nBy card.\n\n"
    "How long does it take?\n\nTwo days.\n\nCan I return it?\n\nYes.\n": [
        (["How do I reset my phone?"], "Press it.\n\nThen wait. Does it blink?\n\nIt is ready."), PAID, SOON, SENT],
}  # fmt: skip


@pytest.mark.parametrize("text", WRITTEN)
def test_marks_of_languages_and_what_stands_between_entries(tmp_path, text):
    assert pairs(read(tmp_path / "a.txt", text)) == WRITTEN[text]


ASKED_POLITELY = [
    "Häufige Fragen\n\nWie erreiche ich Ihren Kundendienst?\nPer Mail.\n\nWas kostet Ihre Expresslieferung?\nZehn Euro.\n\n"
    "Kann ich bei Ihnen auf Rechnung zahlen?\nJa.\n",
    "Wie kann ich bezahlen?\nMit Karte.\n\nWo finde ich meine Rechnung?\nIm Konto.\n\nLiefern Sie nach Wien?\nJa.\n",
    "Comment puis-je payer ?\nPar carte.\n\nLivrez-vous en Suisse ?\nOui.\n\nOù est mon colis ?\nEn route.\n",
]


@pytest.mark.parametrize("text", ASKED_POLITELY)
def test_customers_address_a_shop(tmp_path, text):
    assert [len(reply.examples) for reply in read(tmp_path / "a.txt", text)] == [1, 1, 1]


OF_CATEGORIES = {
    "FAQ\n\nHow do I pay?\n* By card\n* By invoice\n\nShipping\n\nHow long?\nTwo days\n": [
        ("FAQ", ["How do I pay?"], "* By card\n* By invoice"), ("Shipping", ["How long?"], "Two days")],
    "Q: How do I pay?\nA: Now\n\nShipping\n\nAbroad\n\nQ: How long?\nA: Soon\n\nTerms\n\nQ: Where?\nA: Here\n": [
        ("", ["How do I pay?"], "Now"), ("Abroad", ["How long?"], "Soon"), ("Terms", ["Where?"], "Here")],
    "Q: How do I pay?\nA: Now\n\nBest Wishes\n\nQ: How long?\nA: Soon\n\nBest Wishes\n\nQ: Where?\nA: Here\n\nBest Wishes\n": [
        ("", ["How do I pay?"], "Now\n\nBest Wishes"), ("", ["How long?"], "Soon\n\nBest Wishes"),
        ("", ["Where?"], "Here\n\nBest Wishes")],
    "Delivery\nQ: Where?\nA: In the mail.\n\nPayment\nQ: How?\nA: By card.\n": [
        ("Delivery", ["Where?"], "In the mail."), ("Payment", ["How?"], "By card.")],
    "How do I pay?\n\nCash\n\nHow long?\n\nA day\n\nCan I call?\n\nYes\n": [
        ("", ["How do I pay?"], "Cash"), ("", ["How long?"], "A day"), ("", ["Can I call?"], "Yes")],
}  # fmt: skip


def test_a_question_within_an_answer_stays_where_blank_lines_part_the_entries(tmp_path):
    text = "How do I reset it?\nHold it.\nDoes it blink?\nLet go.\n\nHow do I clean it?\nWith water.\n"
    assert pairs(read(tmp_path / "a.txt", text)) == [
        (["How do I reset it?"], "Hold it.\nDoes it blink?\nLet go."),
        (["How do I clean it?"], "With water."),
    ]


@pytest.mark.parametrize("text", OF_CATEGORIES)
def test_titles_are_categories_whatever_the_answer_above_ends_with(tmp_path, text):
    assert sorted_pairs(read(tmp_path / "a.txt", text)) == OF_CATEGORIES[text]


def test_questions_that_stay_in_a_list_or_an_answer_are_noted(tmp_path):
    reading = Reading()
    replies = read(tmp_path / "a.txt", "Where is it?\nHere.\nNot sure?\nAsk.\nTell us more.\n", reading)
    assert len(replies) == 5
    assert "2 of 5 replies, one a line, are questions; if customers ask them: --set format=faq-text" in reading.notes[1]
    reading = Reading()
    text = "Hi.\n" * 40 + "Q: Where?\nA: Here.\n"
    assert len(read(tmp_path / "b.txt", text, reading)) == 42
    assert "--set format=faq-text" in reading.notes[1]
    reading = Reading()
    text = "How do I pay?\nBy card.\nIs it locked?\nUnlock it.\nThen pay.\n\nCan I return it?\nYes.\n"
    assert pairs(read(tmp_path / "c.txt", text, reading)) == [
        (["How do I pay?"], "By card.\nIs it locked?\nUnlock it.\nThen pay."), SENT]  # fmt: skip
    assert "lines of answers that ask, too: 1; put a blank line above" in reading.notes[1]


@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_a_mail_behind_an_faq_is_no_answer(tmp_path, name):
    text = "Q: Where?\nA: Here.\n\nQ: When?\nA: Now.\nFrom: a@x.org\nMessage-ID: <1@x.org>\n\nIt is late.\n"
    with pytest.raises(InputError, match=f"{name}:7: the header of a mail .* --set format=faq-"):
        read(tmp_path / name, text)
    form = "faq-text" if name == "a.txt" else "faq-page"
    assert len(list(read_candidates(tmp_path / name, choice=Choice(form=form)))) == 2


def test_lines_above_and_questions_without_an_answer_are_counted(tmp_path):
    reading = Reading()
    read(tmp_path / "a.txt", "Our shop, 2024.\nQ: Where?\nA: Here.\n\nQ: When?\n\nQ: Who?\nA: We.\n", reading)
    assert reading.dropped == {"lines above the first question": 1, "questions without an answer": 1}


PAGES = {
    "# Tool\n\n## Install\n\nRun it.\n\n## FAQ\n\nQ: Is it free?\n\nA: Yes.\n\n## License\n\nMIT\n":
        ["Run it.", "Yes.", "MIT"],
    "## Q1: How do I change it?\n\nThere are two ways:\n\na) in the app\n\n## Q2: When?\n\nA: Now.\n":
        ["There are two ways:\na) in the app", "Now."],
    "## What does E1 mean?\n\n| Name | Message |\n|---|---|\n| E1 | Card declined |\n\n## Who?\n\nWe.\n":
        ["Name\nMessage\nE1\nCard declined", "We."],
    "## How do I return it?\n\n**Bought online?** Use the form.\n\n**Bought in a shop?** Bring it.\n":
        ["Bought online? Use the form.\nBought in a shop? Bring it."],
    "<h2><button>How do I pay?</button></h2><p>By card.</p><h2><button>When?</button></h2><p>Now.</p>": ["By card.", "Now."],
    "**いつですか\uff1f**\n\n今です。\n\n**どこですか\uff1f**\n\nここです。\n": ["今です。", "ここです。"],
    "| User | Message |\n|---|---|\n| Tom | hi |\n\n## Who?\n\nWe.\n": ["We."],
}  # fmt: skip


@pytest.mark.parametrize("text", PAGES)
def test_pages_are_read_by_what_asks(tmp_path, text):
    replies = read(tmp_path / ("a.html" if text.startswith("<") else "a.md"), text)
    assert [reply.text for reply in replies] == PAGES[text]


def test_placeholders_of_markdown_are_text(tmp_path):
    text = "## Late\n\nHi <name>, <order id> is <b>late</b>.<br>See `<code>`.\n\n<agent-name>\n\n## Done\n\n<p>Bye, <First>.</p>\n"
    assert [reply.text for reply in read(tmp_path / "a.md", text)] == [
        "Hi <name>, <order id> is late.\nSee <code>.\n<agent-name>", "Bye, <First>."]  # fmt: skip


TOPICS = {
    "a.html": ("<h3>How do I pay? <button>Copy link</button></h3><p>By card.</p><h3>When? <button>+</button></h3><p>Now.</p>",
               [(["How do I pay?"], "By card."), (["When?"], "Now.")]),
    "a.md": ("# Macros\n\n## Late parcel\n\nHi! We are sorry.\n\n**Did it not come by Friday?** Please call us.\n\nYours, Anna\n\n"
             "## Refund\n\nIt is on its way.\n",
             [([], "Hi! We are sorry.\nDid it not come by Friday? Please call us.\nYours, Anna"), ([], "It is on its way.")]),
    "b.md": ("## Sizes\n\nS to XL.\n\n## Short answers\n\n| Question | Answer |\n|---|---|\n| Where? | In Bonn. |\n\n## Returns\n\nFree.\n",
             [([], "S to XL."), (["Where?"], "In Bonn."), ([], "Free.")]),
    "c.md": ("## How do I pay?\n\nBy card:\n\n| Question | Answer |\n|---|---|\n| x | y |\n",
             [(["How do I pay?"], "By card:\nQuestion\nAnswer\nx\ny")]),
    "d.md": ("## Refund\n\nIt takes a day.\n\nDid it not come by Friday?\nPlease call us.\n\n## Terms\n\nNone.\n",
             [([], "It takes a day.\nDid it not come by Friday?\nPlease call us."), ([], "None.")]),
}  # fmt: skip


@pytest.mark.parametrize("name", TOPICS)
def test_what_is_part_of_a_topic_stays_there(tmp_path, name):
    text, wanted = TOPICS[name]
    assert pairs(read(tmp_path / name, text)) == wanted


def sorted_pairs(replies):
    return [(reply.payload.get("category", ""), *pairs([reply])[0]) for reply in replies]


TABLE = "| Q | A |\n|---|---|\n"
CATEGORIES = {
    f"# FAQ\n\n## Prices\n\n{TABLE}| How? | So. |\n\n## Times\n{TABLE}| When? | Now. |\n": "tables",
    "# FAQ\n\n## Prices\n\nQ: How?\nA: So.\n\n## Times\n\nQ: When?\nA: Now.\n": "questions",
    "# FAQ\n\n## Prices\n\n**Q: How?**\n\n**A:** So.\n\n## Times\n\n**Q: When?**\n\nA: Now.\n": "headings",
    f"# FAQ\n\n## Prices\n\n{TABLE}| How? | So. |\n\n## Times\n\nQ: When?\nA: Now.\n": "tables and questions",
}


@pytest.mark.parametrize("text", CATEGORIES)
def test_headings_above_questions_are_categories(tmp_path, text):
    reading = Reading()
    replies = read(tmp_path / "a.md", text, reading)
    assert sorted_pairs(replies) == [("Prices", ["How?"], "So."), ("Times", ["When?"], "Now.")]
    assert reading.notes == [f"{tmp_path / 'a.md'}: FAQ page, read by its {CATEGORIES[text]}"]
    assert not reading.dropped


OF_PARAGRAPHS = {
    "How do I pay?\n\nBy card.\n\nHow long does it take?\n\nTwo days.\n\nCan I return it?\n\nYes.\n": [PAID, SOON, SENT],
    "# FAQ\n\nHow do I pay?\nBy card.\n\nHow long does it take?\nTwo days.\n": [PAID, SOON],
    "1. How do I pay?\n\n   By card.\n\n2. How long does it take?\n\n   Two days.\n": [PAID, SOON],
    "# FAQ\n\n## Money\n\nHow do I pay?\nBy card.\n\nCan I return it?\nYes.\n\n## Time\n\nA day.\n": [PAID, SENT, ([], "A day.")],
}


@pytest.mark.parametrize("text", OF_PARAGRAPHS)
def test_pages_with_a_question_above_each_answer(tmp_path, text):
    assert pairs(read(tmp_path / "a.md", text)) == OF_PARAGRAPHS[text]


def test_what_a_page_has_beside_its_questions_is_noted(tmp_path):
    reading = Reading()
    text = f"Hello.\n\n# FAQ\n\nWelcome.\n\n{TABLE}| How? | So. |\n| Why? | |\n"
    assert pairs(read(tmp_path / "a.md", text, reading)) == [(["How?"], "So.")]
    assert reading.dropped == {"rows without a reply": 1}
    assert [note.partition(": ")[2] for note in reading.notes[1:]] == [
        "the text above its headings was left out: 'Hello.'",
        "the text below the page's title was left out: 'Welcome.'",
    ]


def html_table(*rows):
    return f"<table><tr><th>Question<th>Answer<th>Team</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


HTML_TABLES = {
    html_table("<td>How?<td>So.<table><tr><td>x</td><td>y</td></tr></table>"): [(["How?"], "So.\nx\ny")],
    html_table("<td rowspan=2>How?<td>So.<td>a", "<td>Or so.<td>b"): [(["How?"], "So."), (["How?"], "Or so.")],
    html_table("<td>How?<td rowspan='2'>So.<td>a", "<td>How so?<td>a"): [(["How?", "How so?"], "So.")],
    html_table("<td colspan=3>Prices", "<td>How?<td>So.<td>a"): [(["How?"], "So.")],
    f"<table><tr><td>Menu</td><td>{html_table('<td>How?<td>So.<td>a')}</td></tr></table>": [(["How?"], "So.")],
}


@pytest.mark.parametrize("text", HTML_TABLES)
def test_tables_of_pages_with_spans_and_within_tables(tmp_path, text):
    assert pairs(read(tmp_path / "a.html", text)) == HTML_TABLES[text]


def test_tables_of_pages_count_and_note_as_other_tables(tmp_path):
    rows = ["<td>How?<td>So.<td>a", "<td>How so?<td>So.<td>b", "<td>Unanswered?<td><td>b"]
    of_page, of_table = Reading(), Reading()
    replies = read(tmp_path / "a.html", html_table(*rows), of_page)
    table = read(tmp_path / "a.csv", "Question,Answer,Team\nHow?,So.,a\nHow so?,So.,b\nUnanswered?,,b\n", of_table)
    assert replies == table
    assert of_page.dropped == of_table.dropped
    assert [note.partition(": ")[2] for note in of_page.notes[1:]] == [note.partition(": ")[2] for note in of_table.notes[1:]]


def test_front_matter_makes_no_yaml_of_markdown(tmp_path):
    text = "---\ntitle: FAQ\n---\n## When?\nNow.\n## Where?\nHere.\n"
    assert pairs(read(tmp_path / "a.md", text)) == [(["When?"], "Now."), (["Where?"], "Here.")]


def test_marks_are_no_part_of_titles(tmp_path):
    (first, *_) = read(tmp_path / "a.md", "## Q1: How do I change it?\n\nA: In the app.\n\n## Q2: When?\n\nA: Now.\n")
    assert (first.title, first.text) == ("How do I change it?", "In the app.")


TABLES = {
    "Title,Message,Auto Reply\nHi,Hello!,yes\n": "Hello!",
    "name,body,is_reply\nHi,Hello!,true\n": "Hello!",
    "title,content,First response\nHi,Hello!,2024-05-01\n": "Hello!",
    "Name,Body,Median first reply\nHi,Hello!,2 h\n": "Hello!",
    "title,body,approved answer\nGreeting,Hello!,yes\n": "Hello!",
    "subject,body,agent_reply\nGreeting,Hello!,1\n": "Hello!",
    "question,message,Canned Response\nWhen?,x,Now.\n": "Now.",
    "customerQuestion,cannedResponse\nWhen?,Now.\n": "Now.",
    "question_text,answer_text\nWhen?,Now.\n": "Now.",
}


@pytest.mark.parametrize("text", TABLES)
def test_the_column_of_the_reply(tmp_path, text):
    assert [reply.text for reply in read(tmp_path / "a.csv", text)] == [TABLES[text]]


ASKED = {
    "Message,Suggested reply\nwhere is it,Here.\n": (["where is it"], "Here."),
    "Subject,Body,Suggested response\nlate,where is it,Here.\n": (["where is it"], "Here."),
    "Customer message,Agent reply\nwhere is it,Here.\n": (["where is it"], "Here."),
    "msg,reply,Owner\nwhere is it,Here.,Ann\n": (["where is it"], "Here."),
    "message,agent_reply\nwhere is it,yes\nwhen,Here.\n": (["where is it"], "yes"),
}


@pytest.mark.parametrize("text", ASKED)
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_a_message_beside_a_suggested_reply_is_the_question(tmp_path, text, form):
    rows = list(csv.DictReader(text.splitlines()))
    path = tmp_path / "a.csv"
    path.write_text(text if form == "table" else "".join(f"{json.dumps(row)}\n" for row in rows))
    if form == "yaml":
        path.write_text(json.dumps(rows))  # which is YAML, too
    assert pairs(read_candidates(path, choice=Choice(form=form)))[0] == ASKED[text]
    if form == "table":
        examples = [(list(example.context), example.response) for example in read_faq(path, Reading(), FaqSettings())]
        assert examples[0] == ASKED[text]


@pytest.mark.parametrize("text", ["Title,Content,Macro text\nlate,where is it,Here.\n", "Message,Suggested reply\nwhere is it,\n"])
def test_two_columns_that_may_be_the_reply_are_refused(tmp_path, text):
    with pytest.raises(InputError, match="may both be the reply; say which: --set columns=text="):
        read(tmp_path / "a.csv", text)


@pytest.mark.parametrize("name", ["num_questions", "Number of questions", "total_examples", "Related questions", "follow_up_questions"])
def test_columns_that_hold_no_questions_of_the_reply(tmp_path, name):
    assert read(tmp_path / "a.csv", f"title,answer,{name}\nPay,By card.,12\n")[0].examples == ()


def test_a_mail_under_a_name_of_one_question_is_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('Antwort,Frage\nZwei Tage.,"Hallo,\nwo ist mein Paket?\nGrüße, Ada"\n', encoding="utf-8")
    (reply,) = read_candidates(path, choice=Choice(columns={"text": "Antwort", "questions": "Frage"}))
    assert len(reply.examples) == 1


def test_titles_and_words_that_stand_alone_are_no_header(tmp_path):
    (tmp_path / "a.csv").write_text("Canned Replies\nHello!\nText\nBye!\n")
    assert [reply.text for reply in read_candidates(tmp_path / "a.csv")] == ["Hello!", "Text", "Bye!"]
    replies = read(tmp_path / "b.csv", "Questions\nQuestion,Answer\nWhen?,Now.\n")
    assert pairs(replies) == [(["When?"], "Now.")]
    rows = "text,tag 1,tag 2\nTell us your name.,name,text\nType a subject.,subject,text\n"
    assert [reply.text for reply in read(tmp_path / "c.csv", rows)] == ["Tell us your name.", "Type a subject."]
    (tmp_path / "d.csv").write_text("Vorlage;Feld;Typ\nHallo;name;text\n")
    choice = Choice(columns={"text": "Vorlage"})
    assert [reply.text for reply in read_candidates(tmp_path / "d.csv", choice=choice)] == ["Hallo"]


FAQS = [{"question": "When?", "answer": "Now."}]
OBJECTS = [
    {"Product name": "Shop", "faqs": FAQS},
    {"Payment and more": FAQS},
    {"default_answer": "Sorry.", "faqs": FAQS},
    {"macros": FAQS, "stats": [{"first_response": 3}]},
    {"errors": [{"message": "Deprecated"}], "faqs": FAQS},
    {"auto_reply": False, "faqs": FAQS},
    {"When?": "Now."},
    {"When?": ["Now."]},
    {"Now.": ["When?"]},
]


@pytest.mark.parametrize("value", OBJECTS, ids=json.dumps)
@pytest.mark.parametrize("indent", [None, 1])
def test_objects_of_replies(tmp_path, value, indent):
    assert pairs(read(tmp_path / "a.json", json.dumps(value, indent=indent))) == [(["When?"], "Now.")]


def test_several_answers_are_variants_and_missing_ones_are_counted(tmp_path):
    reading = Reading()
    (reply,) = read(tmp_path / "a.json", json.dumps({"When?": ["Now.", "Soon."], "Who?": None, "Where?": ""}), reading)
    assert (reply.text, reply.payload) == ("Now.", {"variants": ["Soon."]})
    assert reading.dropped == {"entries without a text": 2}


def test_entries_whose_key_is_no_question_are_counted(tmp_path):
    reading = Reading()
    value = {"What are your hours?": "9 to 5.", "version": "1.0"}
    assert len(read(tmp_path / "a.json", json.dumps(value), reading)) == 1
    assert reading.dropped == {NO_SENTENCE: 1}


def test_keys_that_occur_again_and_titles_are_read(tmp_path):
    reading = Reading()
    text = '{"How do I pay?": "By card.", "How do I pay?": "By invoice.", "Delivery": "2 days.", "How do I pay?": "By card."}'
    replies = read(tmp_path / "a.json", text, reading)
    assert pairs(replies) == [(["How do I pay?"], "By card."), (["How do I pay?"], "By invoice."), ([], "2 days.")]
    assert replies[2].title == "Delivery"
    assert 'several times, of which all are read: 1, such as "How do I pay?"' in reading.notes[1]


@pytest.mark.parametrize(("text", "told"), [
    ('{"Hello!": "Hi there!"}', "nothing tells which of them is the answer; end questions with a question mark"),
    ('{"When?": "Now.",\n "Where?" "Here."}', "not JSON, or cut off .*line 2, column 11.; mend it there"),
    ('{"When?": {"a": "Now."}, "Who?": "We."}', "no field text"),
    ('{"When?": "Now.", "Who?": {"a": "We."}}', "a question has an answer, a text, or several"),
])  # fmt: skip
def test_objects_that_are_not_read_say_what_is_needed(tmp_path, text, told):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=told):
        list(read_candidates(tmp_path / "a.json"))


@pytest.mark.parametrize("value", [{"Display name": "Shop bot", "Title here": "x"}, {"book flight": ["I want to fly"]}])
def test_settings_and_intents_are_no_answers(tmp_path, value):
    (tmp_path / "a.json").write_text(json.dumps(value))
    with pytest.raises(InputError):
        list(read_candidates(tmp_path / "a.json"))


def test_one_reply_that_the_desk_exports_is_read_back(tmp_path):
    record = {"Short code": "hi", "text": "Hello!", "title": "hi", "examples": []}
    (reply,) = read(tmp_path / "a.jsonl", json.dumps(record) + "\n")
    assert (reply.text, reply.title, reply.payload["Short code"]) == ("Hello!", "hi", "hi")


def test_yaml_of_replies(tmp_path):
    reading = Reading()
    text = "categories:\n- id: 1\nfaqs:\n- q: When?\n  a: Now.\n- q: Who?\n  a:\n- question: ~\n  answer: null\n"
    assert pairs(read(tmp_path / "a.yml", text, reading)) == [(["When?"], "Now.")]
    assert reading.dropped == {"rows without a reply": 3}


YAML = {
    "- answer: By card.\n  examples: |\n    - How do I pay?\n    - Can I pay?\n": [(["How do I pay?", "Can I pay?"], "By card.")],
    "- answer: By card.\n  examples: |\n    - How do I pay?\n": [(["How do I pay?"], "By card.")],
    '- question: Is it null?\n  answer: "null"\n- question: Who?\n  answer: "~"\n': [(["Is it null?"], "null"), (["Who?"], "~")],
    "faq:\n  money:\n  - question: When?\n    answer: Now.\n  time:\n    late:\n    - question: Who?\n      answer: We.\n": [
        (["When?"], "Now."), (["Who?"], "We.")],
}  # fmt: skip


@pytest.mark.parametrize("text", YAML)
def test_yaml_as_people_write_it(tmp_path, text):
    assert pairs(read(tmp_path / "a.yml", text)) == YAML[text]


def test_yaml_without_an_answer_says_what_there_is_and_what_is_needed(tmp_path):
    (tmp_path / "a.yml").write_text("- question: When?\n  answr: Now.\n")
    with pytest.raises(InputError, match=r"the entries have question, answr; write a list of entries, each with `answer: "):
        list(read_candidates(tmp_path / "a.yml", choice=Choice(form="yaml")))
    (tmp_path / "a.yml").write_text("answer: Now.\n")
    with pytest.raises(InputError, match="no entry with an answer, there is no list"):
        list(read_candidates(tmp_path / "a.yml", choice=Choice(form="yaml")))


@pytest.mark.parametrize("missing", [None, "", " "])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.yml"])
def test_missing_answers_are_counted_in_all_forms(tmp_path, name, missing):
    rows = [{"question": "How?", "answer": missing}, {"question": "When?", "answer": "Now."}]
    text = {
        "a.json": json.dumps(rows),
        "a.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows),
        "a.csv": f"question,answer\nHow?,{missing or ''}\nWhen?,Now.\n",
        "a.yml": f"- question: How?\n  answer: {json.dumps(missing)}\n- question: When?\n  answer: Now.\n",
    }[name]
    reading = Reading()
    assert pairs(read(tmp_path / name, text, reading)) == [(["When?"], "Now.")]
    assert reading.dropped == {"rows without a reply": 1}


def test_lists_of_one_object_are_all_read_or_named(tmp_path):
    value = {
        "billing": [{"question": "Where?", "answer": "Here."}],
        "shipping": [{"question": "When?", "reply": "Now."}],
        "misc": [{"q": "Who?", "a": "We."}],
        "z": [{"question": "Why?", "Canned response": "So."}],
        "macros": [{"title": "Hi", "content": "Hello!"}],
        "tags": ["a"],
    }
    for indent in (None, 1):
        reading = Reading()
        replies = read(tmp_path / "a.json", json.dumps(value, indent=indent), reading)
        assert [reply.text for reply in replies] == ["Here.", "Now.", "We.", "So."]
        assert [note.partition(": ")[2][:17] for note in reading.notes[1:]] == ["not read: macros "]


def test_references_of_yaml_do_not_fill_memory(tmp_path):
    texts = "".join(f"  - text {number}\n" for number in range(2_000))
    entries = "".join(f"- answer: a{number}\n  questions: *q\n" for number in range(2_000))
    (tmp_path / "a.yml").write_text(f"- answer: first\n  questions: &q\n{texts}{entries}")
    with pytest.raises(InputError, match="1,000,000"):
        list(read_candidates(tmp_path / "a.yml"))


def test_lists_in_cells_as_numpy_writes_them():
    assert listed_questions("['How do I pay?' 'Can I pay by card?']") == ["How do I pay?", "Can I pay by card?"]
    assert listed_questions("[]") == []
    assert listed_questions(r"['C:\dir?']") == [r"C:\dir?"]
    assert split_questions("(hi|hello) there|bye") == ["(hi|hello) there", "bye"]
