"""Messages that web forms send, and lists of fields that are none."""

import pytest

from rejoinder.text.mails.cleaning import clean_mail

ASKED = "Where is the key to room nine?"
FIELDS = "First name: Mary\nLast name: Li\nE-mail: mary@li.example\nCustomer no.: 88123"


@pytest.mark.parametrize(
    "form",
    [
        f"Name: Mary Li\nPhone: 0151 223344\nMessage: {ASKED}",
        f"{FIELDS}\nSubject: Question\n\nYour message:\n{ASKED}",
        f"You have a new message from your website.\n\n{FIELDS}\n\nComment: {ASKED}\n\nSent on 3 June 2024 at 12:03 from the site",
        f"*Name:* Mary Li\n*Email:* mary@li.example\n*How can we help you?:* {ASKED}\n---\nDate: 3 June 2024\nRemote IP: 10.0.0.1",
        f"Name:\nMary Li\n\nEmail:\nmary@li.example\n\nMessage:\n{ASKED}",
        f"From: Mary Li <mary@li.example>\nSubject: Hello\n\nMessage Body:\nHi,\n\n{ASKED}\n\nRegards\nMary\n\n-- \nThis e-mail was sent from a contact form on Lamp House",
        f"Name : Mary Li\nMessage : {ASKED}\nPhone: 0151 223344".replace("Message", "Email : mary@li.example\nMessage"),
    ],
)
def test_of_a_web_form_the_message_is_read(form):
    assert clean_mail(form) == ASKED


def test_the_subject_and_other_fields_are_read_too():
    text = f"{FIELDS}\nSubject: Key lost\nBranch: Leeds\nMessage: {ASKED}"
    assert clean_mail(text) == f"Key lost\n\nBranch: Leeds\n\n{ASKED}"


@pytest.mark.parametrize(
    "text",
    [
        f"Name: Ann\nMessage: {ASKED}",
        f"Name: Ann\nPhone: 0151 223344\n{ASKED}",
        f"Name: Ann\nI lost it.\nPhone: 0151 223344\nMessage: {ASKED}",
        f"The error says this.\nName: Ann\nPhone: 0151 223344\nMessage: {ASKED}",
        "Name: Ann\nPhone: 0151 223344\nMessage:",
        "Order: A-77\nProblem: the lamp broke",
        "Name: Ann",
    ],
)
def test_other_fields_stay(text):
    assert clean_mail(text) == text
