"""Addresses of PostgreSQL: what they may be, and that none shows a password."""

import re

import pytest

from rejoinder.errors import InputError
from rejoinder.stores.postgres.store import PostgresStore


@pytest.mark.parametrize("password", ["SEC/RETPW", "SEC?RETPW", "SEC#RETPW", "SECRET%ZZPW", "SECRET@PW", "12?34PW", "1/2@PW"])
@pytest.mark.parametrize("host", ["127.0.0.1:1", "", "[::1]:5", "[::1", "a:1,b:2"])
def test_a_password_with_a_character_that_ends_it_is_not_shown(password, host):
    with pytest.raises(InputError) as refused:
        PostgresStore.at(f"postgresql://me:{password}@{host}/db?index=a")
    assert "/ as %2F" in str(refused.value)
    assert not [part for part in re.split(r"\W", password) if len(part) > 1 and part in str(refused.value)]


@pytest.mark.parametrize("address", ["me:SEC%2FRET@host:5432/db?index=a", "host/db?index=a&password=p%40q", "%2Ftmp%2Fpg/db?index=a",
                                     "me@[::1]:5432/db?index=a", "a:1,b:2/db?index=a", "/db?host=/tmp/pg&index=a"])  # fmt: skip
def test_addresses_of_all_forms_are_read(address):
    assert PostgresStore.at(f"postgresql://{address}").address.index == "a"
