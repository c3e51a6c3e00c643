"""Mails cleaned of greetings, closings and marks, and what looks like these and is a request."""

import pytest

from rejoinder.text.mails.cleaning import clean_mail, own_text
from rejoinder.text.messages import read_message

ASKED = "Where is the key to room nine?"


@pytest.mark.parametrize(
    "line",
    [
        "Hi refund the shoes please",
        "hello the lamp flickers",
        "Hey where my parcel at",
        "Hi I need an invoice",
        "good morning change my address",
        "Hi broken lamp, broken plug,",
        "HI REFUND MY SHOES",
        "Hi do you have Legos",
        "Evening Classes",
        "Morning Swimming!",
        "Hi Refund,",
        "Hey return!",
        "Hello Need Invoice",
        "Hi Damaged Parcel",
        "Good morning Stolen Card",
        "Hi Where Is It Built",
        "Hello Saturday,",
        "Dear please cancel,",
    ],
)
def test_a_greeting_with_a_request_stays(line):
    assert clean_mail(f"{line}\nThe order is A-77") == f"{line}\nThe order is A-77"


@pytest.mark.parametrize(
    "line",
    [
        "Hi all in the service team,",
        "Dear Ms. Li and Mr. Ortega of Lamp House Ltd.,",
        "Hello again Anna",
        "hi anna,",
        "Evening all!",
        "Hi there -",
        "Dear customer service people",
        "DEAR SIR OR MADAM,",
        "Attn Mr. Ortega",
        "Hi please help me",
        "Hi can you help me please",
        "Ortega,\n",
        "Mrs. Li,\n",
        "Dear Mr. and Mrs. Brown of FitHouse,",
        "Dear Lamp House,",
        "Hello Lamp House Team",
        "Hi Swimming Lamps Ltd.",
        "Hi Bill",
        "Hi Mark Hill,",
        "hi rose!",
        "Hi Will and Grace,",
        "Hello May",
        "Hi Dr. Baker",
        "Miller,\n",
        "Hello Mary",
    ],
)
def test_a_salutation_is_left_out(line):
    assert clean_mail(f"{line}\n{ASKED}") == ASKED


def test_a_list_does_not_begin_with_a_name():
    text = "Lamps,\nPlugs,\nshades: where are they?"
    assert clean_mail(text) == text


@pytest.mark.parametrize("line", ["Stolen Card,", "Refund,", "Broken Lamp,", "Cancel Booking,", "Friday,"])
@pytest.mark.parametrize("below", ["it happened on Monday", "Ann Li"])
def test_a_subject_is_no_name(line, below):
    assert clean_mail(f"{line}\n\n{below}") == f"{line}\n\n{below}"


@pytest.mark.parametrize(
    "line",
    [
        "External monitors flicker with your dock.",
        "External: is that a word for guests",
        "[External] Do you sell lamps?",
        "External mail boxes are full",
        "Sent from my old address, this never came back.",
        "Sent with the parcel was a broken lamp",
        "Sent by mail, the lamp broke.",
        "Sent from my phone yesterday but nobody answered",
        "Sent from my phone, sorry I lost the lamp",
        "Caution: the lamp is hot, it says. Is it?",
    ],
)
def test_what_a_customer_writes_is_no_mark_of_a_program(line):
    text = f"{line}\nThe order is A-77."
    assert clean_mail(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "[EXTERNAL]",
        "External e-mail",
        "External sender: do not click links.",
        "[External] CAUTION: This mail comes from outside of the firm.",
        "CAUTION: This email originated from outside of the organization. Do not open attachments.",
        "This message originated outside your firm",
        "Sent from my phone",
        "Sent from a mobile device, please excuse typos.",
        "sent from my ipad",
        "Sent via the Samsung Galaxy S21, an AT&T 5G smartphone",
        "Sent from Mail for Windows 10",
    ],
)
def test_marks_of_programs_are_left_out(line):
    assert clean_mail(f"{line}\n{ASKED}") == ASKED
    assert clean_mail(f"{ASKED}\n\n{line}") == ASKED


@pytest.mark.parametrize("dashes", ["--", "-- ", "---", "----", "\u2014", "___"])
@pytest.mark.parametrize(
    "below",
    [ASKED, "I need another lamp", "please send another lamp", "The lamp is broken.", "the lamp is broken", "Ann\nmy lamp broke"],
)
def test_a_separator_cuts_nothing_off(dashes, below):
    text = f"Order: A-77\n{dashes}\n{below}"
    if dashes == "-- " and "?" not in below:
        assert clean_mail(text) == "Order: A-77"
    else:
        assert clean_mail(text) == text


@pytest.mark.parametrize("dashes", ["--", "-- ", "----"])
@pytest.mark.parametrize(
    "below",
    ["Ann Li", "Ann Li\nHead of Lamps\nWe light up your home.", "ann", "Lamp House Ltd.\nwww.lamp.example\nTel. 0117 123", ""],
)
def test_a_signature_below_dashes_is_left_out(dashes, below):
    assert clean_mail(f"{ASKED}\n{dashes}\n{below}") == ASKED


@pytest.mark.parametrize("closing", ["Best,\nAnn", "Kind regards\nAnn Li\nHead of Lamps", "Thanks\nAnn", "-- \nAnn"])
@pytest.mark.parametrize("mark", ["PS", "P.S.", "ps:", "PPS -", "P. S.", "NB:", "N.B.", "Note:", "Update:", "EDIT 9 pm:", "One more thing,", "Also:"])
def test_a_postscript_stays(closing, mark):
    assert clean_mail(f"{ASKED}\n\n{closing}\n\n{mark} the lamp broke.") == f"{ASKED}\n\n{mark} the lamp broke."


@pytest.mark.parametrize(
    "below",
    [
        "Send me a new one",
        "please add a plug",
        "I also lost the plug.",
        "Do you sell plugs",
        "The plug broke and the shade as well.",
        "Both shades are dark",
        "1. New plug\n2. New shade",
        "Return it as soon as possible!",
        "Return the other one",
        "refund it",
    ],
)
def test_what_is_said_behind_a_signature_stays(below):
    assert clean_mail(f"{ASKED}\n\nRegards\nAnn\n\n{below}") == f"{ASKED}\n\n{below}"


@pytest.mark.parametrize("thanks", ["Thanks", "thank you.", "Thanks a lot!", "ty", "thx"])
@pytest.mark.parametrize("below", ["Refund the lamp", "and a plug too", "Can you send it", "Ann bought it from you last week."])
def test_thanks_in_the_middle_cut_nothing_off(thanks, below):
    text = f"the lamp broke.\n{thanks}\n{below}"
    assert clean_mail(text) == text


@pytest.mark.parametrize(
    "closing",
    [
        "Rgds",
        "KR,",
        "Warmly,",
        "Take good care",
        "Have a lovely evening!",
        "Enjoy the weekend",
        "Many thx",
        "Lots of love",
        "Lots of love from rainy Leeds,",
        "All the best from two fans of your lamps,",
        "Best wishes to everyone",
        "Thanks again and have a nice day,",
        "Looking forward to hearing from you",
        "I look forward to your reply",
        "Looking forward to your answer,",
        "Awaiting your reply",
        "Hope to hear from you soon",
        "See you!",
        "Take care and all the best,",
        "Take care, Ann",
        "Take care of yourself!",
        "Have a great rest of your week",
        "Have a good one, Mark",
        "Enjoy your evening and best regards",
        "Wishing you a happy and healthy year,",
        "Mit freundlichen Gr\u00fc\u00dfen",
    ],
)
def test_closings_are_left_out_with_names_and_offices(closing):
    assert clean_mail(f"{ASKED}\n\n{closing}\nC. Li & Dan\nHead of Lamps") == ASKED
    assert clean_mail(f"{ASKED}\n{closing}\nCan Li\nHead of the office\nThe Li family\nCustomer since 2001") == ASKED


@pytest.mark.parametrize("closing", ["Thx, Dan x", "ta, Ann", "Best, Ann", "Kind regards, Ann Li, 4 Oak Road, Leeds", "Love, Ann and Dan", "Thanks, May Young", "Best, Frank", "Cheers, Will Smith", "Have a nice day, Rose", "Sent from my phone"])
def test_a_closing_in_the_last_line_is_left_out(closing):
    assert clean_mail(f"{ASKED} {closing}") == ASKED
    assert clean_mail(f"The lamp broke.\n{ASKED} {closing}") == f"The lamp broke.\n{ASKED}"
    assert clean_mail(f"{ASKED}\n\n{closing}") == ASKED


@pytest.mark.parametrize(
    "text",
    [
        f"{ASKED} Best, the red one",
        f"{ASKED} Thanks",
        f"{ASKED} Love, peace and lamps",
        f"{ASKED} You don't love me.",
        "It broke.\nYou don't love me.\nhello?",
        f"{ASKED} Sent from the wrong address",
        f"{ASKED} Thanks, Sunday",
        f"{ASKED} Thanks, Return To Sender",
        f"{ASKED} Have a nice day, Return It",
        f"{ASKED} Love, Flower Lamp",
        "the card is gone\nta\nBlock It",
        "the card is gone\nThanks\nRefund",
        "the card is gone\nRegards\nBlock It",
        "the card is gone\nBest,\n\nReplace the card",
        "The lamp is wet.\nTake care of it",
        "The lamp is wet.\nTake care of the order today please",
        "The lamp is wet.\nTake care, asap",
        "The lamp is wet.\nTake care and write to me",
        "The lamp is wet.\nHave somebody, an agent, contact me",
        "The lamp is wet.\nHave a person write to me",
        "The lamp is wet.\nHave your people reply",
        "The lamp is wet.\nHave an agent contact us, thanks",
        "The lamp is wet.\nHave a nice day and contact me",
        "Which lamp is the\nbest\nCan I have one",
        "I have a lamp. Is it\nyours\nor does it belong to Ann",
    ],
)
def test_other_words_of_closings_stay(text):
    assert clean_mail(text) == text


HEADER = "From: Ann Li <ann@li.example>\nDate: Tue, 12 Mar 2024 09:00\nSubject: Lamp\nTo: shop@lamp.example\n\n"


@pytest.mark.parametrize(
    "above",
    [
        "FYI\n\n---------- Forwarded message ---------\n",
        "Hello Dan,\n\nplease see below.\n\nBest\nEve\n\n-----Original Message-----\n",
        "fwd\n\nBegin forwarded message:\n\n",
        "A new enquiry was submitted through the website:\n\n",
        "You have received a new message via the FitHouse Contact Form.\n\n",
        "Can you please look into this?\n\n---------- Forwarded message ---------\n",
        "Hi team,\n\nplease reply to the customer.\n\nThanks\nKim\n\nBegin forwarded message:\n\n",
        "This is from my tenant:\n\n---------- Forwarded message ---------\n",
        "Over to you\n\n-------- Weitergeleitete Nachricht --------\n",
    ],
)
def test_a_text_that_points_to_the_mail_below_is_not_all_that_is_read(above):
    assert clean_mail(f"{above}{HEADER}Hi,\n\n{ASKED}\n\nRegards\nAnn") == ASKED
    assert ASKED not in own_text(f"{above}{HEADER}{ASKED}")


@pytest.mark.parametrize(
    "mark", ["---------- Forwarded message ---------\n", "-----Original Message-----\n", "Begin forwarded message:\n\n", "\n", ""]
)
def test_of_a_mail_with_nothing_above_the_subject_of_the_header_is_read(mark):
    assert clean_mail(f"{mark}{HEADER}{ASKED}") == f"Lamp\n\n{ASKED}"


@pytest.mark.parametrize(
    "text",
    [
        f"Name: Ann\nOrder: A-77\n{ASKED}",
        "From: Leeds\nTo: York\nHow much is that?",
        "Subject: Lamp\nThe lamp broke.",
        HEADER.strip(),
        "From: Oslo\nTo: Rome\nDate: 3 May\nRequest: a window seat",
    ],
)
def test_other_fields_stay(text):
    assert clean_mail(text) == text


def test_fields_of_the_message_are_no_header():
    assert clean_mail(f"{HEADER.strip()}\nOrder: A-77\nProblem: the lamp broke") == "Lamp\n\nOrder: A-77\nProblem: the lamp broke"
    assert clean_mail(f"{HEADER}Where is it? I paid for:\n2 lamps") == "Lamp\n\nWhere is it? I paid for:\n2 lamps"


@pytest.mark.parametrize("above", ["Please cancel it.", "not working", "PLEASE CANCEL IT, THE ORDER", "Any News On My Refund?", "Can you help? My lamp broke.", "Thanks for looking into this!"])
@pytest.mark.parametrize("mark", ["---------- Forwarded message ---------\n", ""])
def test_what_says_something_above_a_mail_that_is_handed_on_is_read(above, mark):
    assert clean_mail(f"{above}\n\n{mark}{HEADER}{ASKED}") == above


def test_a_request_above_a_quoted_mail_is_all_that_is_read():
    above = "Can you please look into this?"
    quoted = f"On Tue, 12 Mar 2024 at 09:00, Lamp House <shop@lamp.example> wrote:\n> {ASKED}"
    assert clean_mail(f"{above}\n\n{quoted}") == above


@pytest.mark.parametrize(
    "above",
    ["Thanks!", "The form on your website is not working.", "I look forward to it.", "Thanks for the message below.", "I received it.", "The red one, see below."],
)
def test_another_text_above_a_mail_is_all_that_is_read(above):
    assert clean_mail(f"{above}\n\n{HEADER}{ASKED}") == above


@pytest.mark.parametrize(
    "text",
    [
        "Is the message that I send to the doctor confidential?",
        "Can others read it? The e-mail to the doctor should be confidential.",
        "I want the message to be privileged, as the law says.",
    ],
)
def test_what_asks_about_confidence_is_no_disclaimer(text):
    assert clean_mail(f"The lamp broke.\n\n{text}") == f"The lamp broke.\n\n{text}"
    assert clean_mail(f"The lamp broke.\nThanks\n{text}").endswith(text)


@pytest.mark.parametrize("greeting", ["Hi Ann,", "Hello,", "Ann,"])
@pytest.mark.parametrize("end", ["so delete it.", "so send my data back."])
def test_a_disclaimer_is_more_than_a_salutation(greeting, end):
    text = f"This message is confidential, {end}"
    assert clean_mail(f"{greeting}\n\n{text}") == text


def test_a_disclaimer_speaks_of_nothing_that_is_mine():
    text = "The lamp broke.\n\nThis message is confidential, so delete my address."
    assert clean_mail(text) == text


@pytest.mark.parametrize(
    "below",
    [
        "Registered in Wales No. 77. Registered office: 4 Oak Road, Leeds.",
        "Lamp House Ltd.\n4 Oak Road, Leeds\nVAT reg. no. 123, company no. 77.",
        "Note: this e-mail is confidential.",
        "NB",
    ],
)
def test_what_a_company_prints_is_left_out(below):
    assert clean_mail(f"{ASKED}\n\nKind regards\nAnn Li\n\n{below}") == ASKED
    assert clean_mail(f"{ASKED}\n\nKind regards\nAnn Li\nWe light your home.\n\n{below}") == ASKED


SLOGANS = [
    "Please consider the environment before printing this e-mail.",
    "Think before you print.",
    "Save paper: only print this mail if you must.",
    "Follow us on LinkedIn for the latest news!",
    "Winner of the Best Lamp Award 2023.",
]


CLOSINGS = ["Thanks", "Thank you!", "Kind regards"]


@pytest.mark.parametrize("closing", CLOSINGS)
@pytest.mark.parametrize("slogan", SLOGANS)
def test_a_slogan_below_a_name_is_left_out(closing, slogan):
    assert clean_mail(f"{ASKED}\n\n{closing}\nJo\n{slogan}") == ASKED


@pytest.mark.parametrize("closing", CLOSINGS)
@pytest.mark.parametrize("slogan", [*SLOGANS, "We have moved! Our new rooms are in 12 Dock Road.", "Lamps for all of Leeds."])
def test_a_signature_with_a_slogan_is_left_out(closing, slogan):
    assert clean_mail(f"{ASKED}\n\n{closing}\nJo\n\nJo Li | Sales\nLamp House Ltd.\n{slogan}\n{SLOGANS[0]}") == ASKED


@pytest.mark.parametrize("slogan", SLOGANS)
def test_a_paragraph_of_slogans_is_left_out(slogan):
    assert clean_mail(f"{ASKED}\n\nThanks\nJo\n\n{slogan}") == ASKED
    assert clean_mail(f"{ASKED}\n\n{slogan}\n\nAnd is it lost?").split("\n") == [ASKED, "", "", "And is it lost?"]


@pytest.mark.parametrize("below", ["We also need a plug.", "I lost the plug too.", "Please send it today.", "Can you send a plug?", "It broke on the second day.", "Ann wants another one, would that work."])
def test_what_is_said_directly_below_thanks_and_a_name_stays(below):
    text = f"The lamp broke.\nThanks\nJo\n{below}"
    assert clean_mail(text) == text


@pytest.mark.parametrize("below", ["We have moved. The new address is 12 Dock Road.", "Follow us on our way and we show the broken lamp, the shade is lost too.", "The winner of the prize got no lamp."])
def test_a_paragraph_that_says_something_is_no_slogan(below):
    assert clean_mail(f"{ASKED}\n\nThanks\nJo\n\n{below}") == f"{ASKED}\n\n{below}"


def test_a_request_below_a_slogan_stays():
    text = f"Thanks\nJo\n{SLOGANS[3]}\nPlease call me back."
    assert clean_mail(f"The lamp broke.\n{text}") == f"The lamp broke.\n{text}"


def test_a_disclaimer_is_left_out():
    text = "This message is confidential and may be privileged.\nPlease delete it."
    assert clean_mail(f"{ASKED}\n\n{text}") == ASKED
    assert clean_mail(f"{ASKED}\n\nBest\nAnn\n{text}") == ASKED


@pytest.mark.parametrize(
    ("mail", "read"),
    [
        ("Thanks,\nAnna", "Thanks,"),
        ("Thank you!\nAnna", "Thank you!"),
        ("ok thanks\nJohn Smith", "ok thanks"),
        ("Dear team,\n\nThanks a lot!\n\nAnna Smith\nHead of Sales", "Thanks a lot!"),
        ("Thanks\nLost card", "Thanks Lost card"),
        ("Thanks,\nAnna\n\nWhere is my order?", "Thanks, Anna Where is my order?"),
        ("\u2014\nAnna", "\u2014 Anna"),
    ],
)
def test_thanks_that_are_all_of_a_mail_stay_without_the_name(mail, read):
    assert read_message(mail).text == read


@pytest.mark.parametrize(
    ("mail", "kept"),
    [
        ("I'm in room 12.\nThanks\nTom\nThe wifi is down again.", "The wifi is down again."),
        ("It's about our stay.\n\nDon't print my private address on the invoice.", "on the invoice."),
        ("A question about bills.\n\nOnly print the hours of May on the PDF.", "on the PDF."),
    ],
)
def test_what_is_told_below_a_name_or_of_printing_is_no_slogan(mail, kept):
    assert clean_mail(mail).endswith(kept)
