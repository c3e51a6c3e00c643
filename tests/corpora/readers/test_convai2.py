"""ConvAI2, in files of ParlAI's format."""

import pytest

from rejoinder.corpora.lines import Reading
from rejoinder.corpora.readers.dialogues.convai2 import Convai2Settings, read_convai2
from rejoinder.errors import InputError

BOTH = """\
1 your persona: i read twenty books a year.
2 your persona: i only eat kosher.
3 partner's persona: i'm a stay at home dad.
4 hello what are doing today ?\ti am good .
5 wow ! i do love a good horror movie .\ta good movie is always good .
"""
CANDIDATES = """\
1 your persona: i have two dogs.
2 hi !\ti'm great .\t\tyeah , well|no|i'm great .
3 nice .\tno\t\tno|yes|no
"""
OTHER_SIDE = """\
1 __SILENCE__\thi !
2 i'm great .\tnice .
3 no\tok
"""
PERSONA = " ".join(line[2:] for line in BOTH.splitlines()[:3])


def dialogues(count):
    return "".join(f"1 your persona: i am {n}.\n2 hi {n}\thello {n}\n3 how ?\tfine {n}\n" for n in range(count))


@pytest.fixture
def read(tmp_path):
    def run(text, reading=None, **chosen):
        path = tmp_path / "valid.txt"
        path.write_text(text, encoding="utf-8")
        return list(read_convai2(path, reading or Reading(), Convai2Settings(**chosen)))

    return run


def test_the_persona_is_the_oldest_message(read):
    first, second = read(BOTH)
    assert (first.context, first.response) == ((PERSONA, "hello what are doing today ?"), "i am good .")
    assert second.context == (PERSONA, first.context[1], "i am good .", "wow ! i do love a good horror movie .")
    assert (first.id, second.id, first.source) == ("valid:4", "valid:5", "convai2")
    assert first.thread == second.thread
    assert (first.candidates, first.label) == ((), None)


def test_whose_persona_is_a_setting(read):
    mine, other = PERSONA.split(" partner's")
    for personas, wanted in {"self": [mine], "other": [f"partner's{other}"], "none": []}.items():
        assert read(BOTH, personas=personas)[0].context == (*wanted, "hello what are doing today ?")


def test_given_candidates_are_kept(read):
    first, second = read(CANDIDATES)
    assert (first.candidates, first.label) == (("yeah , well", "no", "i'm great ."), 2)
    assert (second.candidates, second.label) == (("no", "yes", "no"), 2)
    assert read(CANDIDATES, draw=19) == [first, second]


def test_who_speaks_first_has_only_the_persona_before(read):
    reading = Reading()
    first, second = read(OTHER_SIDE, reading)
    assert (first.context, first.response) == (("hi !", "i'm great ."), "nice .")
    assert second.context[-1] == "no"
    assert reading.dropped == {"responses with nothing before them": 1}
    assert {example.thread for example in read(CANDIDATES)} == {first.thread}, "both sides are one thread"
    opening = read("1 your persona: i am one.\n2 __SILENCE__\thi !\n")[0]
    assert (opening.context, opening.response) == (("your persona: i am one.",), "hi !")


def test_drawn_candidates_come_from_other_dialogues(read):
    reading = Reading()
    examples = read(dialogues(30), reading, draw=19)
    assert len(examples) == 60
    for example in examples:
        number = example.response.split()[-1]
        assert len(set(example.candidates)) == 20
        assert example.candidates[example.label] == example.response
        own = {f"hello {number}", f"fine {number}"} - {example.response}
        assert not own & set(example.candidates)
    assert len(reading.notes) == 1
    assert "19 for each example were drawn from its other dialogues (seed 0)" in reading.notes[0]


def test_a_draw_is_noted_where_reading_stops_early(tmp_path):
    path = tmp_path / "valid.txt"
    path.write_text(dialogues(30), encoding="utf-8")
    reading = Reading()
    assert next(read_convai2(path, reading, Convai2Settings(draw=19))).label == 19
    assert "so figures do not compare with published ones" in reading.notes[0]


def test_as_many_as_there_are_can_be_drawn(read):
    text = dialogues(4) + "1 hi\thello 0\n"  # `hello 0` is in two dialogues
    for example in read(text, draw=6):
        assert len(set(example.candidates)) == 7
    with pytest.raises(InputError, match=r"valid\.txt: 6 responses of other dialogues for draw=7; draw fewer"):
        read(text, draw=7)


@pytest.mark.parametrize(("line", "reason"), [
    ("hello\tthere", "no number at its beginning"),
    ("12", "no number at its beginning"),
    ("3 your persona: i am one.\tyes", "a response to a persona line"),
    ("3 hi\tno\t\tyes|maybe", "the response is not among the candidates"),
    ("3 hi\tno\t\tno", "one candidate; ranking needs at least 2"),
])  # fmt: skip
def test_bad_lines_have_their_number_and_can_be_skipped(read, line, reason):
    text = CANDIDATES.replace("3 nice", f"{line}\n4 nice")
    with pytest.raises(InputError, match=rf"valid\.txt:3: {reason}"):
        read(text)
    reading = Reading(skip_bad=True)
    assert len(read(text, reading)) == 2
    assert (reading.lines, reading.bad_lines) == (4, 1)


def test_the_draw_depends_on_the_seed_alone(read):
    assert read(dialogues(30), draw=5) == read(dialogues(30), draw=5)
    assert read(dialogues(30), draw=5) != read(dialogues(30), draw=5, seed=1)
    plain = [(example.context, example.response) for example in read(dialogues(30))]
    assert plain == [(example.context, example.response) for example in read(dialogues(30), draw=5)]
