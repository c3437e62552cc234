"""What is odd about a file, a path or a stream is told as that, and never as an internal error."""

import sqlite3

import pytest

from colonnade.data.documents import Document
from colonnade.errors import LedgerError
from colonnade.ledger.entry_store import _translated


def test_long_texts_are_no_long_keys() -> None:
    sql = ", ".join(f"t.column_{number}" for number in range(500))
    text = f'sql = """\nselect {sql}\nfrom t where a = 1"""'
    assert sql in Document.parse(text, "bank.toml").data["sql"]


def test_a_full_disk_under_a_ledger_is_named_whatever_sqlite_calls_it() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    with (
        pytest.raises(LedgerError, match=r"bank.ledger: .*full or fails: make room"),
        _translated("bank.ledger"),
    ):
        raise error
