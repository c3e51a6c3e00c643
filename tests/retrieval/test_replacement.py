"""The ids of replies: their field's case, and new replies without one."""

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.retrieval.replacement import id_of, plan_replacement


@pytest.mark.parametrize("name", ["id", "ID", "Id", " id "])
def test_the_field_id_is_known_in_any_case(name):
    old = [(0, Candidate("We open at nine.", {name: 2})), (1, Candidate("Three days.", {name: 1}))]
    assert id_of(old[0][1]) == "2"
    plan = plan_replacement(old, [Candidate("We open at ten.", {name: "2"})])
    assert (set(plan.changes), list(plan.added), list(plan.notes())) == ({0}, [], [])


@pytest.mark.parametrize(("payload", "name"), [({"ID": 1, "id": 2}, "2"), ({}, ""), ({"ID": None}, ""), ({"ids": 3}, "")])
def test_which_field_is_the_id(payload, name):
    assert id_of(Candidate("Hi", payload)) == name


def test_new_replies_without_an_id_are_noted():
    plan = plan_replacement([(0, Candidate("A", {"id": 1}))], [Candidate("B", {"number": 1}), Candidate("C", {"id": 7})])
    assert len(plan.added) == 2
    [note] = plan.notes()
    assert note.startswith("1 of the new replies have no id")


def test_an_id_of_several_replies_is_replaced_in_their_order():
    old = [(0, Candidate("a", {"id": "x"}, learned=(("hm",),))), (1, Candidate("b", {"id": "x"})), (2, Candidate("c"))]
    one = plan_replacement(old, [Candidate("A", {"id": "x"})])
    assert one.changes == {0: Candidate("A", {"id": "x"}, learned=(("hm",),))}
    assert (list(one.deleted), list(one.added)) == ([1], [])
    three = plan_replacement(old, [Candidate(text, {"id": "x"}) for text in ("a", "B", "C")])
    assert (three.changes, list(three.added), three.unchanged) == (
        {1: Candidate("B", {"id": "x"})}, [Candidate("C", {"id": "x"})], 1)  # fmt: skip
