"""Keyed digests of ids: what BLAKE2b says, with the key hashed once for all of them."""

import hashlib
from typing import Any

import numpy as np
import pytest

from colonnade.crypto import pseudonyms as module
from colonnade.crypto.pseudonyms import keyed_digests
from colonnade.data.declaring import Spelling
from colonnade.ledger.release import Cut
from colonnade.models.files.membership import IdRules, TrainingMembership
from colonnade.randomness import SeededRandomness

IDS = ["", "ann", "Łódź 7", "x" * 300, *(str(number) for number in range(500))]


@pytest.mark.parametrize("person", [b"", b"colonnade cut"])
def test_each_is_blake2b_of_its_text_under_the_key(person: bytes) -> None:
    key = bytes(range(32))
    expected = [
        int.from_bytes(
            hashlib.blake2b(text.encode(), digest_size=8, key=key, person=person).digest(), "little"
        )
        for text in IDS
    ]
    found = keyed_digests(key, iter(IDS), person=person)
    assert found.dtype == np.uint64
    assert found.tolist() == expected
    assert keyed_digests(key, []).shape == (0,)


def test_lists_of_people_and_cuts_hash_their_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted:
        @staticmethod
        def blake2b(*arguments: Any, **named: Any) -> Any:
            made.append(named)
            return hashlib.blake2b(*arguments, **named)

    monkeypatch.setattr(module, "hashlib", Counted)
    people = TrainingMembership.of(IDS, IdRules("n", Spelling()), SeededRandomness("people"))
    assert (len(people), len(made)) == (len(IDS), 1)
    Cut(bytes(32), share=0.5, rules="column n").held_out(IDS)
    assert len(made) == 2
