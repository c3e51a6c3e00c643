"""`rejoinder index verify` says what it has compared, and names what differs."""

import pytest

from rejoinder.corpora.schema import Candidate
from rejoinder.encoders.open import load
from rejoinder.retrieval.index import Index
from rejoinder.stores.postgres.store import PostgresStore

VERB = ("index", "verify")
REPLIES = [Candidate(f"Answer {number}.", title=f"Question {number}?") for number in range(3)]


@pytest.fixture(params=["folder", "postgres"])
def place(request, tmp_path):
    """The name of an index of two segments, with a head, in a folder or in PostgreSQL."""
    name = str(tmp_path / "index")
    if request.param == "postgres":
        store = request.getfixturevalue("postgres_store")
        name = f"{store.address.connection}&index={store.address.index}"
    index = Index.build(load("convert-small"), REPLIES, name)
    index.add(["Another one."])
    index.delete([0])
    return name


@pytest.mark.folder
def test_what_was_compared_is_printed(command, place):
    code, out, err = command(place)
    assert code == 0, err
    [line] = [line for line in out.splitlines() if line.startswith("verified")]
    assert line == "verified: 4 stored replies in 2 segments, 9 digests as in the manifest"
    assert command(place, "--json").json["verified"] == {"replies": 4, "segments": 2, "digests": 9}


def test_what_was_altered_in_a_database_is_refused(refused, postgres_store):
    Index.build(load("convert-small"), REPLIES, postgres_store)
    with PostgresStore(postgres_store.address)._connections.connected() as connection:
        connection.execute("UPDATE added SET line = replace(line, 'Answer 1', 'Answer 7')")
    name = f"{postgres_store.address.connection}&index={postgres_store.address.index}"
    assert "verified" not in refused(name, said="was altered after it was written")
