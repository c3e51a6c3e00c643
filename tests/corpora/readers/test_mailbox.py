"""Mails of an mbox file or of .eml files, without quotes, closings and signatures."""

import zipfile

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.text.mails.cleaning import clean_mail
from rejoinder.text.messages import clean_message

QUESTION = "Hi,\n\nwhere is my parcel?\n\nBest regards,\nAnna Smith\nTel. +49 30 1234567"
RULE = "_" * 32


def mail(number, sender, body):
    answered = f"In-Reply-To: <{number - 1}@x>\n" if number else ""
    kind = "html" if body.startswith("<") else "plain"
    return (
        f"From: {sender}\nSubject: Parcel\nDate: Fri, 01 Mar 2024 09:0{number}:00 +0000\nMessage-ID: <{number}@x>\n"
        f"Content-Type: text/{kind}; charset=utf-8\nContent-Transfer-Encoding: 8bit\n{answered}\n{body}\n"
    )


@pytest.fixture
def read(tmp_path):
    def run(answer, suffix="mbox", **settings):
        mails = [mail(0, "Anna <anna@a.org>", QUESTION), mail(1, "Bob <help@shop.org>", answer)]
        path = tmp_path / f"mails.{suffix}"
        if suffix == "mbox":
            text = "\n".join(f"From x@y Fri Mar  1 09:00:00 2024\n{each}" for each in mails)
            path.write_text(text, encoding="utf-8")
        else:
            with zipfile.ZipFile(path, "w") as file:
                for number, each in enumerate(mails):
                    file.writestr(f"{number}.eml", each)
        reading = Reading()
        examples = read_chats(path, reading, ChatsSettings(agent="help@shop.org", **settings))
        return [(*example.context, example.response) for example in examples], reading

    return run


ANSWERS = {
    "closing": ("Hello Anna,\n\nit is on its way.\n\nKind regards\nBob\nShop Support", "it is on its way."),
    "closing with a name": ("It is on its way.\n\nBest, Bob", "It is on its way."),
    "phone": ("Gern geschehen.\n\nSent from my iPhone", "Gern geschehen."),
    "phone, Spanish": ("De nada.\n\nEnviado desde mi iPhone", "De nada."),
    "closing, Dutch": ("Morgen.\n\nMet vriendelijke groet,\nBob", "Morgen."),
    "closing, Polish": ("Jutro.\n\nPozdrawiam\nBob", "Jutro."),
    "closing, Swedish": ("I morgon.\n\nMed vänliga hälsningar\nBob", "I morgon."),
    "closing, Czech": ("Zítra.\n\nS pozdravem,\nBob", "Zítra."),
    "thanks": ("Thank you!", "Thank you!"),
    "a greeting": ("Hello!\n\n-- \nBob", "Hello!"),
    "thanks between a salutation and a closing": ("Hi Anna,\n\nThank you!\n\nBest regards\nBob", "Thank you!"),
    "thanks before more": (
        "Your letter is here.\n\nThank you.\n\nWe send it tomorrow.\n\nKind regards\nBob",
        "Your letter is here.\n\nThank you.\n\nWe send it tomorrow.",
    ),
    "a closing word that opens": ("Cheers\nyour refund is on its way", "Cheers\nyour refund is on its way"),
    "Gmail, Spanish": (
        "Sí.\n\nEl mar, 12 mar 2024 a las 9:00, Anna (<anna@a.org>) escribió:\n\n> Where\n> is it?",
        "Sí.",
    ),
    "Gmail, Dutch": ("Ja.\n\nOp di 12 mrt 2024 om 09:00 schreef Anna <anna@a.nl>:\n\n> Waar?", "Ja."),
    "Gmail, Dutch, without marks": ("Ja.\n\nOp di 12 mrt 2024 om 09:00 schreef Anna <anna@a.nl>:\n\nWaar?", "Ja."),
    "Gmail, Polish": ("Tak.\n\nwt., 12 mar 2024 o 09:00 Anna <anna@a.pl> napisał(a):\n\n> Gdzie?", "Tak."),
    "Gmail, wrapped": ("Tak.\n\nwt., 12 mar 2024 o 09:00 Anna\n<anna@a.pl> napisał(a):\n\n> Gdzie?", "Tak."),
    "Gmail, wrapped, an answer below": (
        "wt., 12 mar 2024 o 09:00 Anna\n<anna@a.pl> napisał(a):\n> Gdzie?\n\nJutro.",
        "Jutro.",
    ),
    "Gmail, Portuguese": ("Sim.\n\nEm ter., 12 de mar. de 2024 às 09:00, Anna <a@a.pt> escreveu:\n\n> Onde?", "Sim."),
    "Thunderbird, Spanish": ("Sí.\n\nEl 12/3/24 a las 9:00, Anna escribió:\n> Where?", "Sí."),
    "introduced in no known words": ("Kyllä.\n\nAnna kirjoitti:\n> Missä?", "Kyllä."),
    "an answer above a quote": ("On 3 May we sent it.\n> Where is it?", "On 3 May we sent it."),
    "Outlook, German": (
        "Ja, ist es.\n\n-----Ursprüngliche Nachricht-----\nVon: Anna <anna@a.org>\n"
        "Gesendet: Dienstag, 12. März 2024 09:00\nAn: help@shop.org\nBetreff: Paket\n\nWo ist es?",
        "Ja, ist es.",
    ),
    "Outlook, Finnish": (
        "Kyllä.\n\n-----Alkuperäinen viesti-----\nLähettäjä: Anna <anna@a.org>\nAihe: Paketti\n\nMissä?",
        "Kyllä.",
    ),
    "Outlook, a rule": (f"Yes.\n{RULE}\nFrom: Anna <anna@a.org>\nSent: Monday\nSubject: Parcel\n\nWhere?", "Yes."),
    "a marker at the end": ("Yes.\n\n-----Original-Nachricht-----", "Yes."),
    "between quotes": ("> Where is my parcel?\nOn its way.\n> And the other?\nTomorrow.", "On its way.\nTomorrow."),
    "a title between hyphens": ("First.\n\n--- Delivery ---\n\nTomorrow.", "First.\n\n--- Delivery ---\n\nTomorrow."),
    "a time in a text": ("Call Anna at 9:00 on 12.3.2024:\nshe waits.", "Call Anna at 9:00 on 12.3.2024:\nshe waits."),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_quotes_closings_and_signatures_are_removed(read, name):
    answer, wanted = ANSWERS[name]
    examples, _ = read(answer)
    assert examples == [("where is my parcel?", wanted)]
    assert clean_mail(answer) == wanted  # as of a message that is searched for


GMAIL = "On Fri, Mar 1, 2024 at 9:00 AM Anna &lt;<a href='mailto:anna@a.org'>anna@a.org</a>&gt; wrote:<br>"
QUOTES_IN_HTML = {
    "Thunderbird, between quotes": (
        "<div class='moz-cite-prefix'>On 05.01.26 10:00, Anna wrote:<br></div>"
        "<blockquote type='cite'><p>Where is my order?</p></blockquote><p>It left today.</p>"
        "<blockquote type='cite'><p>And can I return it?</p></blockquote><p>Yes, within 30 days.</p>",
        "It left today.\nYes, within 30 days.",
    ),
    "no type": ("<p>It left today.</p><blockquote>Where is my order?<br>I wait.</blockquote>", "It left today."),
    "within a quote": (
        "<blockquote><blockquote>We sent it.</blockquote>Where?<p>I wait.</p></blockquote><p>It left today.</p>",
        "It left today.",
    ),
    "Gmail": (
        f"<div>It left today.</div><div class='gmail_quote'><div class='gmail_attr'>{GMAIL}</div>"
        "<blockquote class='gmail_quote'><div>Where is my order?</div></blockquote></div>",
        "It left today.",
    ),
    "Apple": (
        "<div>It left today.</div><div><br><blockquote type='cite'><div>On 5 Jan 2026, at 10:00, Anna "
        "&lt;anna@a.org&gt; wrote:</div><br><div>Where is my order?</div></blockquote></div>",
        "It left today.",
    ),
    "Outlook": (
        "<p>It left today.</p><div><p><b>From:</b> Anna<br><b>Sent:</b> Monday, January 5, 2026 10:00<br>"
        "<b>To:</b> Shop<br><b>Subject:</b> Order</p></div><p>Where is my order?</p>",
        "It left today.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", QUOTES_IN_HTML)
def test_block_quotes_of_html_are_removed(read, name):
    answer, wanted = QUOTES_IN_HTML[name]
    examples, _ = read(answer)
    assert examples == [("where is my parcel?", wanted)]
    assert clean_message(answer) == wanted.replace("\n", " ")


@pytest.mark.parametrize(
    "answer",
    ["> Where is my parcel?", "Sent from my iPhone", "-- \nBob\nShop", "Kind regards\nBob"],
)
def test_a_mail_that_only_quotes_or_signs_is_counted(read, answer):
    examples, reading = read(answer)
    assert examples == []
    assert reading.dropped == {"mails without a text of their own": 1}
    assert clean_mail(answer) == answer.strip()


FORWARD = (
    "---------- Forwarded message ---------\nFrom: Anna <anna@a.org>\n"
    "Date: Tue, Mar 12, 2024 at 9:00 AM\nSubject: Parcel\nTo: <help@shop.org>\n\nWhere is it?"
)


def test_a_forwarded_mail_is_another_author_s_and_what_a_customer_means(read):
    answer = f"See below.\n\n{FORWARD}"
    assert read(answer)[0] == [("where is my parcel?", "See below.")]
    assert clean_mail(answer) == "Where is it?"


APPLE_FORWARD = (
    "<blockquote type='cite'><div>Begin forwarded message:</div><div><b>From: </b>Anna &lt;anna@a.org&gt;</div>"
    "<div><b>Date: </b>5 Jan 2026 at 10:00</div><div><b>To: </b>help@shop.org</div><div><b>Subject: </b>Parcel</div>"
    "<br><div>Where is it?</div></blockquote>"
)


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        (f"<p>See below.</p>{APPLE_FORWARD}", "Where is it?"),
        (f"<p>Can you look into this?</p>{APPLE_FORWARD}", "Where is it?"),
        (APPLE_FORWARD, "Parcel Where is it?"),
        ("See below.\n\n> Where is it?", "See below. Where is it?"),
        ("> Where is it?\n> And when?", "Where is it? And when?"),
        ("<blockquote><p>Where is it?</p><p>And when?</p></blockquote>", "Where is it? And when?"),
    ],
)
def test_a_customer_s_message_that_points_to_a_quote_or_only_quotes_is_read_for_it(message, meant):
    assert clean_message(message) == meant


def test_eml_files_are_read_like_an_mbox_file_and_redacted(read):
    answer = "Hello Anna,\n\nAnna Smith, it is at bea@x.org.\n\nKind regards\nBob"
    assert read(answer, "zip")[0] == read(answer)[0]
    ((question, response),) = read(answer, redact=True)[0]
    assert (question, response) == ("where is my parcel?", "<name> Smith, it is at <email>.")


def test_mails_without_an_id_are_joined_by_answers_to_their_subject_alone(tmp_path):
    def plain_mail(number, sender, subject, body):
        return f"From x Mon Jan  1 00:00:00 2024\nFrom: {sender}\nDate: Mon, 0{number} Jan 2024 10:00:00 +0000\nSubject: {subject}\n\n{body}\n\n"

    path = tmp_path / "form.mbox"
    path.write_text("".join([
        plain_mail(1, "ann@a.org", "Contact form", "My parcel is lost."),
        plain_mail(2, "bob@b.org", "Contact form", "How do I change my password?"),
        plain_mail(3, "help@shop.org", "Re: Contact form", "Click on the link below it."),
        plain_mail(4, "cid@c.org", "Contact form", "Are you open on Sundays?"),
        plain_mail(5, "help@shop.org", "Re: Contact form", "We are, until noon."),
    ]))  # fmt: skip
    examples = read_chats(path, Reading(), ChatsSettings(agent="help@shop.org"))
    assert [(*example.context, example.response) for example in examples] == [
        ("How do I change my password?", "Click on the link below it."),
        ("Are you open on Sundays?", "We are, until noon."),
    ]


@pytest.fixture
def read_mails(tmp_path):
    def run(*mails):
        path = tmp_path / "mails.mbox"
        path.write_text("".join(
            f"From x Mon Jan  1 00:00:00 2024\nFrom: {sender}\nTo: {recipient}\nSubject: {subject}\n"
            f"Date: Mon, 01 Jan 2024 10:0{number}:00 +0000\n{headers}\n{body}\n\n"
            for number, (sender, recipient, subject, headers, body) in enumerate(mails)
        ))  # fmt: skip
        examples = read_chats(path, Reading(), ChatsSettings(agent="@shop.org"))
        return [(*example.context, example.response) for example in examples]

    return run


def test_mails_that_answer_other_mails_are_not_joined_by_subject(read_mails):
    help_, subject = "help@shop.org", "Re: Question"
    mails = [
        (help_, f"{name}@a.org", subject, f"Message-ID: <{name}1>\nIn-Reply-To: <{name}0>\n", f"It is {name}.")
        for name in ("ann", "bob")
    ]
    mails += [
        (f"{name}@a.org", help_, subject, f"Message-ID: <{name}2>\nIn-Reply-To: <{name}1>\n", f"Is it {name}?")
        for name in ("ann", "bob")
    ]
    mails += [
        (help_, f"{name}@a.org", subject, f"Message-ID: <{name}3>\nReferences: <{name}2>\n", f"Yes, {name}.")
        for name in ("ann", "bob")
    ]
    assert read_mails(*mails) == [(f"It is {name}.", f"Is it {name}?", f"Yes, {name}.") for name in ("ann", "bob")]


@pytest.mark.parametrize("agent", ["help@shop.org", "eve@shop.org"])
def test_a_subject_joins_mails_that_share_a_participant(read_mails, agent):
    customers = [f"{name}@mail.org" for name in ("ann", "bob", "cid")]
    mails = [(name, "help@shop.org", "Question", "", f"Where is it, asks {name[:3]}?") for name in customers[:2]]
    mails += [(agent, name, "Re: Question", "", f"Here, {name[:3]}.") for name in customers]
    assert read_mails(*mails) == [(f"Where is it, asks {name[:3]}?", f"Here, {name[:3]}.") for name in customers[:2]]


TOUR = "We want to book:\n\nFrom Berlin to Rome, May 2024\n>From there by boat.\n\nHow much is it?"


def test_lines_that_begin_with_from_are_text_of_an_eml_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "mails.zip", "w") as file:
        file.writestr("0.eml", mail(0, "Anna <anna@a.org>", TOUR).replace("\nhow", "\n\nhow"))
        file.writestr("1.eml", mail(1, "Bob <help@shop.org>", "It is 90 euros.\n\nFrom Rome you walk, in June 2024"))
    (example,) = read_chats(tmp_path / "mails.zip", Reading(), ChatsSettings(agent="help@shop.org"))
    assert "From Berlin to Rome, May 2024" in example.context[0]
    assert example.context[0].endswith("How much is it?")
    assert example.response == "It is 90 euros.\n\nFrom Rome you walk, in June 2024"


@pytest.mark.parametrize("start", ["", "\n", "\r\n"])
def test_an_eml_file_with_a_first_line_of_an_mbox_is_read(tmp_path, start):
    path = tmp_path / "a.eml"
    mails = [mail(0, "Anna <anna@a.org>", "Where is it?"), mail(1, "help@shop.org", ">From here you see it.")]
    path.write_text(start + "\n".join(f"From x@y Fri Mar  1 09:00:00 2024\n{each}" for each in mails))
    (example,) = read_chats(path, Reading(), ChatsSettings(agent="help@shop.org", format="mailbox"))
    assert (*example.context, example.response) == ("Where is it?", "From here you see it.")


def part(kind, text, *headers):
    return "\n".join([f"Content-Type: {kind}; charset=utf-8", *headers, "", text, ""])


def parts(kind, *inner):
    """A part of several parts, with a boundary of their number."""
    mark = f"b{len(inner)}{kind}"
    marked = "\n".join(f"--{mark}\n{each}" for each in inner)
    return f'Content-Type: multipart/{kind}; boundary="{mark}"\n\n{marked}\n--{mark}--\n'


PLAIN = part("text/plain", "It is on its way.")
HTML = part("text/html", "<p>It is on <b>its</b> way.</p>")
IMAGE = part("image/png", "iVBORw0KGgo=", "Content-Disposition: inline; filename=a.png", "Content-Transfer-Encoding: base64")
LOG = part("text/plain", "error 5", "Content-Disposition: attachment; filename=log.txt")
SECOND = part("text/plain", "It comes tomorrow.")
WAY = "It is on its way."
PARTS = {
    "plain beside HTML": (parts("alternative", PLAIN, HTML), WAY),
    "blank plain beside HTML": (parts("alternative", part("text/plain", " \n\u200b\xa0"), HTML), WAY),
    "blank plain in an alternative of a mail with an attachment": (
        parts("mixed", parts("alternative", part("text/plain", ""), parts("related", HTML, IMAGE)), LOG), WAY,
    ),
    "two texts": (parts("mixed", PLAIN, SECOND), f"{WAY}\n\nIt comes tomorrow."),
    "two texts with an image between them": (parts("mixed", PLAIN, IMAGE, SECOND), f"{WAY}\n\nIt comes tomorrow."),
    "a text and HTML": (parts("mixed", SECOND, HTML), f"It comes tomorrow.\n\n{WAY}"),
    "an attached text": (parts("mixed", PLAIN, LOG), WAY),
    "an alternative and a text": (parts("mixed", parts("alternative", PLAIN, HTML), SECOND), f"{WAY}\n\nIt comes tomorrow."),
    "signed": (parts("signed", PLAIN, part("application/pgp-signature", "x")), WAY),
    "HTML alone": (HTML, WAY),
    "an attached mail": (parts("mixed", PLAIN, "Content-Type: message/rfc822\n\nSubject: x\n\nWhere is it?\n"), WAY),
    "an image alone": (IMAGE, None),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_the_texts_of_a_mail_s_parts_are_read(tmp_path, name):
    body, wanted = PARTS[name]
    headers = "From: help@shop.org\nSubject: Re: Parcel\nDate: Fri, 01 Mar 2024 10:00:00 +0000\nIn-Reply-To: <0@x>\n"
    with zipfile.ZipFile(tmp_path / "mails.zip", "w") as file:
        file.writestr("0.eml", mail(0, "Anna <anna@a.org>", "Where is it?"))
        file.writestr("1.eml", f"{headers}MIME-Version: 1.0\n{body}")
    examples = read_chats(tmp_path / "mails.zip", Reading(), ChatsSettings(agent="help@shop.org"))
    assert [example.response for example in examples] == ([wanted] if wanted else [])
