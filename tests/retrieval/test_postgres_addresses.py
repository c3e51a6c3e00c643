"""Addresses of PostgreSQL: what they may be, and that none shows a password."""

import re
import time
from pathlib import Path

import pytest

from rejoinder.errors import InputError
from rejoinder.serving.worker.sources import absolute_name
from rejoinder.stores.address import store_of
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


@pytest.mark.parametrize("hosts", ["support-db.internal.example.com ", "db.example.com:5432,a" * 20 + "]", "[::1]" * 20])
def test_a_wrong_host_is_refused_at_once(hosts):
    begin = time.monotonic()
    with pytest.raises(InputError, match="is not postgresql://HOST/DB"):
        PostgresStore.at(f"postgresql://{hosts}/rejoinder?index=faq")
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "pgsql", "postgresqI", "s3", "http", "Postgresql+Psycopg", "jdbc.postgresql"])
@pytest.mark.parametrize("name", [str, Path])
@pytest.mark.parametrize("read", [store_of, absolute_name])
def test_an_address_of_another_scheme_is_refused_without_its_password(scheme, name, read):
    with pytest.raises(InputError, match="give a folder, or postgresql://HOST/DB") as refused:
        read(name(f"{scheme}://me:SECRET@host/db?index=a"))
    assert str(refused.value).startswith(f"{scheme}:// ")
    assert not re.search("SECRET|me|host", str(refused.value).replace("HOST", "").replace("scheme", ""))


@pytest.mark.parametrize("scheme", ["Postgresql", "POSTGRES", "postgres"])
def test_letters_of_the_scheme_may_be_large(scheme):
    address = f"{scheme}://me:SECRET@host/db?index=a"
    assert str(store_of(address)) == "postgresql://host/db?index=a"
    assert absolute_name(address) == address


@pytest.mark.folder
@pytest.mark.parametrize("name", [r"C:\\replies", "C:/replies", "a:b", "./my:folder/index", "re:plies"])
def test_folders_with_a_colon_are_folders(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(store_of(name)) == str(Path(name))


@pytest.mark.folder
def test_a_folder_that_is_there_is_no_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pgsql:/replies").mkdir(parents=True)
    assert str(store_of("pgsql:/replies")) == "pgsql:/replies"
