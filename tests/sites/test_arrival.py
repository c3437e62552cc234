"""Whoever asks whether a copy of a kit may come proves that it holds the kit."""

import json
from typing import Any

import pytest
from certificates import Root

from colonnade.runtime.identity import NotTrusted, Trust
from colonnade.sites.presence import question, requested

OURS = Root.make()
BANK, SHOP = OURS.issue("bank"), OURS.issue("shop")
TRUST = Trust(OURS.certificate)


def test_a_party_is_heard_under_its_own_name() -> None:
    assert requested(question(BANK, "5f0c", "server.example"), TRUST, "server.example") == ("bank", "5f0c")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"party": "shop"}, "made out to 'bank', not to 'shop'"),
        ({"copy": "ab12"}, "did not sign"),
        ({"server": "elsewhere.example"}, "it asks 'elsewhere.example'"),
        ({"certificate": SHOP.to_bytes().hex()}, "made out to 'shop'"),
        ({"certificate": Root.make().issue("bank").to_bytes().hex()}, "not issued by this federation's root"),
        ({"signature": "00"}, "did not sign"),
        ({"signature": 7}, "does not say who it is"),
    ],
)
def test_a_question_that_another_one_put_is_refused(change: dict[str, Any], why: str) -> None:
    said = json.loads(question(BANK, "5f0c", "server.example")) | change
    with pytest.raises(NotTrusted, match=why):
        requested(json.dumps(said), TRUST, "server.example")


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(NotTrusted, match="does not say who it is"):
        requested(text, TRUST, "server.example")
