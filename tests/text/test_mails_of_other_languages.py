"""Mails in other languages than English: courtesy is left out, questions stay."""

import pytest

from rejoinder.text.courtesy import asks, has_content
from rejoinder.text.mails.cleaning import clean_mail
from rejoinder.text.messages import read_message
from rejoinder.text.sentences.splitting import split_sentences

MAILS = {
    "es": ("Estimados señores:", "¿Dónde está mi pedido?", "Muchas gracias de antemano,\nAna Ruiz"),
    "es, hola": ("Buenos días,", "No puedo entrar en mi cuenta.", "Un saludo\nAna"),
    "de": ("Guten Morgen,", "wo ist meine Bestellung?", "Mit freundlichen Grüßen\nJan Maier"),
    "de, dank": ("Grüß Gott,", "ich brauche eine Rechnung.", "Vielen Dank im Voraus\nJan"),
    "fr": ("Bonjour Madame,", "Où est ma commande ?", "Bien cordialement,\nLéa Petit"),
    "fr, merci": ("Bonsoir,", "je veux annuler mon achat.", "Merci d'avance\nLéa"),
    "it": ("Buongiorno,", "dov'è il mio ordine?", "Cordiali saluti\nLuca Neri"),
    "it, grazie": ("Gentile cliente,", "vorrei un rimborso.", "Grazie mille\nLuca"),
    "pt": ("Bom dia,", "onde está a minha encomenda?", "Com os melhores cumprimentos\nRui"),
    "pt, olá": ("Olá,", "quero uma fatura.", "Muito obrigada\nInês"),
}


@pytest.mark.parametrize("language", MAILS)
def test_salutation_and_closing_are_left_out(language):
    salutation, question, closing = MAILS[language]
    assert clean_mail(f"{salutation}\n\n{question}\n\n{closing}").endswith(question)
    assert closing.partition("\n")[0] not in clean_mail(f"{question}\n\n{closing}")


@pytest.mark.parametrize(
    "text",
    [
        "Care instructions missing\nWhere do I find them?",
        "Danke Medien ist mein Lieferant\nWo sehe ich das?",
        "Gracias Torres es mi vendedora\n¿Cómo la llamo?",
    ],
)
def test_first_lines_that_say_something_stay(text):
    assert clean_mail(text) == text


@pytest.mark.parametrize(
    "text",
    ["Hola, buenos días.", "Vielen Dank!", "Merci beaucoup", "Grazie mille", "Muito obrigado"],
)
def test_courtesy_says_nothing(text):
    assert not has_content(text)
    assert has_content(f"{text} Visa")


def test_a_question_is_searched_for_without_the_greeting_before_it():
    message = read_message("Hola, buenos días. ¿Dónde está mi pedido? Muchas gracias.")
    assert "¿Dónde está mi pedido?" in message.parts
    assert not {"Hola, buenos días.", "Muchas gracias."} & set(message.parts)


def test_demands_and_short_forms_of_other_languages():
    assert asks("Bitte stornieren")
    assert asks("la factura, por favor")
    assert split_sentences("La Sra. Ruiz pagó. Gracias.") == ["La Sra. Ruiz pagó.", "Gracias."]


@pytest.mark.parametrize(
    "closing",
    ["Best regards / Mit freundlichen Grüßen", "Regards/Cordialement", "Kind regards - Saludos", "Saludos | Best wishes,"],
)
def test_a_closing_in_two_languages_is_left_out(closing):
    assert clean_mail(f"Where is it?\n\n{closing}\nKarl Maier\nMobil: 0171 555 01 22") == "Where is it?"


@pytest.mark.parametrize("line", ["Best / worst lamp", "Thanks - Refund", "Regards/Block It"])
def test_half_a_closing_is_none(line):
    assert clean_mail(f"The lamp broke.\n{line}\nKarl Maier").startswith(f"The lamp broke.\n{line}")
