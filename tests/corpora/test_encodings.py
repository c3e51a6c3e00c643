# ruff: noqa: RUF001
"""Encodings that no mark names: short files of Windows' code pages are read as they were written."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.corpora.forms import source
from rejoinder.corpora.forms.csv_pairs import read_csv
from rejoinder.corpora.forms.source import look
from rejoinder.corpora.lines import Reading
from rejoinder.corpora.registry.candidates import read_candidates
from rejoinder.corpora.registry.chats import ChatsSettings, read_chats
from rejoinder.errors import InputError
from rejoinder.intents.reading.texts import read_intents

WESTERN = {
    "German": [
        ("Wir öffnen um neun.", "Wann öffnet ihr?"),
        ("Der Versand kostet 4,90 €.", "Was kostet der Versand?"),
        ("Größe M fällt groß aus.", "Welche Größe brauche ich?"),
        ("Ja, „Café Müller“ ist heute geöffnet.", "Seid ihr da?"),
    ],
    "French": [
        ("Nous ouvrons à neuf heures.", "Quand ouvrez-vous ?"),
        ("La livraison coûte 4,90 €.", "Combien coûte la livraison ?"),
        ("Oui, l’échange est gratuit.", "Puis-je échanger l’article déjà reçu ?"),
        ("Votre numéro de client est sur la boîte.", "Où est mon n° de client ?"),
        ("« Mon compte », tout en bas.", "Où vois-je mes achats ?"),
    ],
    "Spanish": [
        ("Abrimos a las nueve.", "¿Cuándo abren?"),
        ("El envío llegará mañana.", "¿Dónde está mi pedido nº 12?"),
        ("Sí, la devolución es gratuita.", "¡Quiero devolverlo!"),
    ],
    "Italian": [
        ("Apriamo alle nove, perché no.", "A che ora aprite?"),
        ("Può restituirlo più tardi.", "È possibile restituirlo?"),
        ("Sì, già da lunedì.", "La città è servita?"),
    ],
    "Portuguese": [
        ("Não, a devolução é grátis.", "As devoluções são pagas?"),
        ("O cartão está válido até amanhã.", "Há informações?"),
        ("Abrimos às nove.", "Vocês abrem à noite?"),
    ],
    "Dutch": [
        ("Eén keer per week.", "Hoe vaak komen jullie in België?"),
        ("Uw financiële gegevens zijn veilig.", "Wat kost het bezorgen: € 5?"),
        ("Dat is een goed idee, hè?", "Ik heb één vraag."),
    ],
    "Swedish": [
        ("Vi öppnar klockan nio.", "När öppnar ni på måndag?"),
        ("Återbetalning sker på fredag.", "Var är mina pengar?"),
        ("Det går att ändra lösenordet här.", "Jag har glömt lösenordet."),
    ],
}
POLISH = [
    ("Otwieramy o dziewiątej.", "O której otwieracie?"),
    ("Przesyłka kosztuje 15 zł.", "Ile kosztuje wysyłka?"),
    ("Tak, możesz zwrócić produkt.", "Czy mogę zwrócić?"),
    ("Żółty kolor jest dostępny.", "Jakie są kolory?"),
]
CZECH = [
    ("Otevíráme v devět.", "Kdy otevíráte?"),
    ("Zboží můžete vrátit do 14 dnů.", "Mohu zboží vrátit?"),
    ("Přihlaste se prosím znovu.", "Nejde mi přihlášení, děkuji."),
    ("Heslo změníte v nastavení účtu.", "Zapomněl jsem heslo."),
]
HUNGARIAN = [
    ("Hétfőtől kilenckor nyitunk.", "Mikor nyitnak?"),
    ("A szállítás 990 forintba kerül.", "Mennyibe kerül a szállítás?"),
    ("A jelszót itt állíthatja vissza.", "Segítség, elfelejtettem a jelszót, és időm sincs."),
]
TURKISH = [
    ("Saat dokuzda açıyoruz.", "Ne zaman açılıyorsunuz?"),
    ("Siparişiniz yolda, teşekkürler.", "Siparişim nerede?"),
    ("İade ücretsizdir, değişiklik yapılır.", "Işığı yanıyor."),
]
RUSSIAN = [
    ("Мы открываемся в девять.", "Когда вы открываетесь?"),
    ("Доставка стоит 300 рублей.", "Сколько стоит доставка?"),
    ("Пароль можно сбросить здесь.", "Я забыл пароль."),
]
OTHERS = {
    "Polish": (POLISH, "cp1250"),
    "Czech": (CZECH, "cp1250"),
    "Hungarian": (HUNGARIAN, "cp1250"),
    "Turkish": (TURKISH, "cp1254"),
    "Russian": (RUSSIAN, "cp1251"),
    "Russian of Unix": (RUSSIAN, "koi8_r"),
    "German of a Mac": (WESTERN["German"], "mac_roman"),
    "Swedish of a Mac": (WESTERN["Swedish"], "mac_roman"),
}


def table(rows):
    return "".join(f"{answer};{question}\n" for answer, question in [("answer", "question"), *rows])


def check(path, text, encoding):
    path.write_bytes(text.encode(encoding))
    assert look(path).text == text


@given(st.sampled_from(list(WESTERN)), st.data())
def test_rows_of_western_europe_are_windows_1252(tmp_path_factory, language, data):
    rows = data.draw(st.lists(st.sampled_from(WESTERN[language]), min_size=1, max_size=30))
    check(tmp_path_factory.mktemp("table") / "a.csv", table(rows), "cp1252")


@given(st.lists(st.sampled_from([row for rows in WESTERN.values() for row in rows]), min_size=1, max_size=30))
def test_a_file_may_have_several_languages(tmp_path_factory, rows):
    check(tmp_path_factory.mktemp("table") / "a.csv", table(rows), "cp1252")


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("seed", range(10))
def test_ten_rows_of_other_code_pages_are_theirs(tmp_path, language, seed):
    rows, encoding = OTHERS[language]
    rows = [*rows, *random.Random(seed).choices(rows, k=10 + seed * 2 - len(rows))]
    check(tmp_path / "a.csv", table(rows), encoding)


def test_english_with_the_quotes_of_a_word_processor(tmp_path):
    rows = [("We’re open at nine – “as ever”…", "When do you open?"), ("It’s £4.90.", "How much?")]
    check(tmp_path / "a.csv", table(rows), "cp1252")


def test_replies_and_intents_are_read_in_the_same_encoding(tmp_path):
    replies = tmp_path / "replies.csv"
    intents = tmp_path / "intents.csv"
    replies.write_bytes(table(WESTERN["German"][:2]).encode("cp1252"))
    intents.write_bytes("text;label\nWann öffnet ihr?;Öffnung\nFür 4,90 €?;Preis\n".encode("cp1252"))
    assert [reply.text for reply in read_candidates(replies)] == [answer for answer, _ in WESTERN["German"][:2]]
    read = read_intents(intents)
    assert read.texts == ("Wann öffnet ihr?", "Für 4,90 €?")
    assert read.labels == (("Öffnung",), ("Preis",))


# One byte within the sample that is not UTF-8 makes a file without a mark one of another encoding.
@pytest.mark.parametrize(
    ("mark", "sample_bytes"), [(b"\xef\xbb\xbf", source.SAMPLE_BYTES), (b"\xef\xbb\xbf", 40), (b"", 40)]
)
def test_a_line_that_is_not_utf_8_is_a_bad_one_whatever_mark_the_file_begins_with(
    tmp_path, monkeypatch, mark, sample_bytes
):
    monkeypatch.setattr(source, "SAMPLE_BYTES", sample_bytes)
    pairs = tmp_path / "a.csv"
    chats = tmp_path / "chats.csv"
    pairs.write_bytes(mark + b"question,answer\nWhere is it?,Here it is.\nWho?,caf\xe9\nWhen?,Now.\n")
    rows = b"1,Ann,customer,Where is it?\n1,Bob,agent,Here.\n1,Ann,customer,caf\xe9\n1,Bob,agent,On its way.\n"
    chats.write_bytes(mark + b"conversation,author,role,text\n" + rows)
    for path, read, line in (
        (pairs, read_csv, 3),
        (chats, lambda path, reading: read_chats(path, reading, ChatsSettings()), 4),
    ):
        with pytest.raises(InputError, match=rf"csv:{line}: not UTF-8 \(byte 0xe9 at position \d+\)"):
            list(read(path, Reading()))
        reading = Reading(skip_bad=True)
        assert list(read(path, reading))
        assert reading.bad_lines == 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("language", ["German", "French", "Spanish"])
def test_utf_16_without_a_mark_is_read(tmp_path, encoding, language):
    check(tmp_path / "a.csv", table(WESTERN[language]), encoding)


@pytest.mark.parametrize("data", [bytes(range(256)), b"ab\0cd\0\0ef" * 40, bytes(400), b"\0\1" * 200, b"\xff\xd8\0\0" * 90])
def test_other_zero_bytes_are_no_text(tmp_path, data):
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(InputError, match="binary data, or in no known encoding"):
        look(tmp_path / "a.csv")
