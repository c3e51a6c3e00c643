"""WhatsApp's lines: both forms, every order of dates, clocks of twelve hours, lines of WhatsApp itself."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.readers.times import find_order, parse_time
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.chat_apps.whatsapp import whatsapp_line
from rejoinder.corpora.registry.recognition import inspect
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.corpora.forms.choice import Choice
from rejoinder.errors import InputError

WORDS = st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Zs"])
NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)
TEXTS = st.text(WORDS, min_size=1, max_size=30)
DATES = st.datetimes(datetime.datetime(2015, 1, 1), datetime.datetime(2035, 1, 1))


@st.composite
def lines(draw):
    """A line of any phone, with what it says."""
    date, name, text = draw(DATES), draw(NAMES), draw(TEXTS)
    separator = draw(st.sampled_from("./-"))
    order = draw(st.sampled_from(["%d{0}%m{0}%Y", "%m{0}%d{0}%y", "%Y{0}%m{0}%d", "%d{0}%m{0}%y"]))
    day = date.strftime(order.format(separator))
    clock = date.strftime(
        draw(st.sampled_from(["%H:%M", "%H.%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S\u202f%p", "%I:%M p.m."]))
    )
    between = draw(st.sampled_from([", ", " ", " à ", ",\u202f"]))
    if draw(st.booleans()):
        return f"{day}{between}{clock} - {name}: {text}", name, text
    mark = draw(st.sampled_from(["", "\u200e"]))
    return f"{mark}[{day}{between}{clock}] {name}: {text}", name, text


@given(lines())
def test_the_line_of_any_phone_is_its_author_and_text(line):
    whole, name, text = line
    parsed = whatsapp_line(whole)
    assert (parsed.author, parsed.text) == (name, text)


@given(st.text(WORDS | st.just(" "), max_size=60))
def test_a_text_without_a_date_begins_no_message(text):
    assert whatsapp_line(f"so {text}") is None


@given(st.lists(DATES, min_size=40, max_size=60).map(sorted), st.sampled_from(["day", "month", "year"]))
def test_the_order_of_dates_is_found(dates, order):
    forms = {"day": "%d %m %Y", "month": "%m %d %Y", "year": "%Y %m %d"}
    numbers = [[int(part) for part in date.strftime(forms[order]).split()] for date in dates]
    days = {date.date() for date in dates}
    if any(date.day > 12 for date in days):
        assert find_order(numbers) == order


def chat_of(tmp_path, text, name="WhatsApp Chat with Bea.txt", reading=None, **settings):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    examples = read_chats(path, reading or Reading(), ChatsSettings(**settings))
    return [(*example.context, example.response) for example in examples]


def test_oddities_of_an_android_phone(tmp_path):
    text = (
        "12/31/23, 9:58\u202fPM - Messages and calls are end-to-end encrypted. Tap to learn more.\n"
        '12/31/23, 9:58\u202fPM - Bea changed the subject to "a: b"\n'
        "12/31/23, 9:59\u202fPM - Bea: Where is it?\n"
        "I have waited:\n\n- for days\n"
        "1/1/24, 12:01\u202fAM - Shop: <Media omitted>\n"
        "1/1/24, 12:01\u202fAM - Shop: IMG-20240101-WA0001.jpg (file attached)\n"
        "1/1/24, 12:02\u202fAM - Shop: It left today \u200e<This message was edited>\n"
        "1/1/24, 12:03\u202fAM - Shop: This message was deleted\n"
        "1/2/24, 9:00\u202fPM - Bea: 12/24 was better: thanks\n"
        "1/2/24, 9:01\u202fPM - Shop: Bye\n"
    )
    reading = Reading()
    assert chat_of(tmp_path, text, reading=reading) == [
        ("Where is it?\nI have waited:\n\n- for days", "It left today"),
        ("12/24 was better: thanks", "Bye"),
    ]
    assert reading.dropped == {
        "lines of WhatsApp itself (joins, encryption)": 2,
        "attachments, calls and lines of WhatsApp": 2,
        "deleted messages": 1,
    }
    assert reading.notes[0].endswith("WhatsApp chat, 2 chats, agent: Shop")
    whole = [
        ("Where is it?\nI have waited:\n\n- for days", "It left today"),
        ("Where is it?\nI have waited:\n\n- for days", "It left today", "12/24 was better: thanks", "Bye"),
    ]
    assert chat_of(tmp_path, text, gap="none") == whole


@pytest.mark.parametrize(
    "line",
    [
        "[31.12.23, 21:59:00] Bea: \u200eBild weggelassen",
        "[31.12.23, 21:59:00] Bea: \u200e<Anhang: 00000010-PHOTO-2023.jpg>",
        "[31.12.23, 21:59:00] Bea: Diese Nachricht wurde gelöscht.",
        "[31.12.23, 21:59:00] \u200eBea hat die Gruppe verlassen",
        "31.12.23, 21:59 - Bea: <Medien ausgeschlossen>",
        "31/12/2023 21:59 - Bea: <Multimedia omitido>",
        "31/12/2023 à 21:59 - Bea: <Médias omis>",
        "31/12/23, 9:59 p. m. - Bea: <Multimedia omitido>",
        "2023/12/31 下午9:59 - Bea: <省略多媒體檔>",
        "31.12.2023, 21:59 - Bea: null",
    ],
)
def test_what_whatsapp_says_is_left_out_in_every_language(tmp_path, line):
    reading = Reading()
    start = line.partition("Bea")[0].replace("\u200e", "")
    lines = [f"{start}Bea: Hallo?", line, f"{start}Shop: Guten Tag!"]
    assert chat_of(tmp_path, "\n".join(lines), reading=reading) == [("Hallo?", "Guten Tag!")]
    assert sum(reading.dropped.values()) == 1


@pytest.mark.parametrize("start", [
    "3/6/18, 1:55 p.m. - ", "03-06-2018, 01.55 PM - ", "13.06.18 21.25.15: ", "[06.13.18 21:25:15] ",
    "13.6.2018 klo 21.25.15 - ", "13. 6. 2018. 21:25:15 ", "[3/6/18 1:55:00 p. m.] ", "\u200e[2018/06/13, 21:25:15] ",
])  # fmt: skip
def test_older_forms_and_a_text_that_begins_like_another(tmp_path, start):
    other = "1.1.24, 09:00 - Eva: pasted" if "[" in start else "[1.1.24, 09:00:00] Eva: pasted"
    text = f"{start}Bea: Where?\n{other}\n{start}Shop: There.\n"
    assert chat_of(tmp_path, text) == [(f"Where?\n{other}", "There.")]


def test_a_group_and_who_answers(tmp_path):
    text = "".join(
        f"[01.03.24, 09:0{place}:00] {name}: {said}\n"
        for place, (name, said) in enumerate(
            [("Bea", "Who knows?"), ("Dan", "Not me."), ("~ Shop", "We do."), ("Bea", "Fine.")]
        )
    )
    with pytest.raises(
        InputError,
        match=r"messages of Bea \(2\), Dan \(1\), Shop \(1\): name the agent with --set agent=NAME",
    ):
        chat_of(tmp_path, text, "_chat.txt")
    assert chat_of(tmp_path, text, "_chat.txt", agent="shop") == [("Who knows?", "Not me.", "We do.")]
    reading = Reading()
    assert chat_of(tmp_path, text, "_chat.txt", reading, agent="Eva") == []
    assert reading.without_reply == 1


def test_names_are_redacted_beside_other_personal_data(tmp_path):
    text = (
        "01.03.24, 09:00 - Bea Öz: I am Bea, bea@x.org. Support me, Beate!\n"
        "01.03.24, 09:01 - Dan Support: Hello Bea Öz! Your Support, Dan.\n"
    )
    reading = Reading()
    (chat,) = chat_of(tmp_path, text, reading=reading, agent="Dan Support", redact=True)
    assert chat == ("I am <name>, <email>. Support me, Beate!", "Hello <name>! Your Support, <name>.")
    assert reading.redacted
    assert "Dan" not in reading.notes[0]


def test_a_file_of_something_else_is_one_line(tmp_path):
    for text, told in (
        ("Hello\n[31.12.23, 21:59:00] Bea: x\n", "looks like plain text, but like no form of chats"),
        ("", "is empty"),
    ):
        with pytest.raises(InputError, match=told):
            chat_of(tmp_path, text)
    path = tmp_path / "a.txt"
    path.write_text("Hello\n")
    with pytest.raises(InputError, match=r"a.txt:1: no WhatsApp chat: a line begins with date and time"):
        list(read_chats(path, Reading(), ChatsSettings(format="whatsapp")))
    assert inspect(path, Choice()).kind == "text"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02T00:00:00Z", 86_400),
        ("1970-01-02 01:00:00+01:00", 86_400),
        (86_400, 86_400),
        ("1700000000000", 1_700_000_000),
        (1_700_000_000_000, 1_700_000_000),
        ("02.01.1970 00:00", 86_400),
        ("Fri, 02 Jan 1970 00:00:00 +0000", 86_400),
        ("1/2/1970 12:00 am", 2_678_400),
        ("99.99.1970 00:00", None),
        ("soon", None),
        (None, None),
        (True, None),
    ],
)
def test_times(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize("written", [
    "<Media omitted>\nHere it is.", "IMG-1.jpg (file attached)\nHere it is.", "Here it is. <This message was edited>",
    "Here it is. <Diese Nachricht wurde bearbeitet.>",
])  # fmt: skip
def test_an_attachment_s_caption_is_read_and_the_mark_of_an_edit_is_not(tmp_path, written):
    path = tmp_path / "a.txt"
    path.write_text(f"01.03.26, 09:01 - Ann: Where?\n01.03.26, 09:02 - Shop: {written}\n", encoding="utf-8")
    [example] = read_chats(path, Reading(), ChatsSettings(agent="Shop"))
    assert (*example.context, example.response) == ("Where?", "Here it is.")


def shop_answers(tmp_path, written, reading=None):
    """The examples of a chat in which a shop answers "Where?"."""
    lines = f"01.03.26, 09:01 - Ann: Where?\n01.03.26, 09:02 - Shop: {written}\n"
    return chat_of(tmp_path, lines, "a.txt", reading, agent="Shop")


@pytest.mark.parametrize("written", [
    "See www.shop.com (opening hours)", "Our page is www.shop.com (FAQ page)\nClick on returns.",
    "www.shop.com (opening hours)", "shop.de (see below)", "shop.org/index.pdf (the price list)",
    "It costs approx. 3.50 (with delivery)", "Please read terms.pdf (first page)",
])  # fmt: skip
def test_an_address_before_brackets_is_no_attachment(tmp_path, written):
    assert shop_answers(tmp_path, written) == [("Where?", written)]


@pytest.mark.parametrize("name", [
    "PTT-20240101-WA0001.opus (Datei angehängt)", "\u200eIMG-20240101-WA0001.JPG (file attached)", "a_b.7z (plik w)",
    "Ann Smith.vcf (file attached)", "Price list 2024.docx (archivo adjunto)", "Offre.pdf (fichier joint)",
])  # fmt: skip
def test_a_file_s_name_before_brackets_is_an_attachment(tmp_path, name):
    reading = Reading()
    assert shop_answers(tmp_path, name, reading) == []
    assert reading.dropped == {"attachments, calls and lines of WhatsApp": 1}
    assert shop_answers(tmp_path, f"{name}\nHere it is.") == [("Where?", "Here it is.")]
