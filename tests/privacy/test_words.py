"""Observers and units as people say them."""

import pytest

from colonnade.privacy.observers import (
    Colluding,
    about_text,
    joined,
    observer_text,
    observers_text,
    unit_text,
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("server", "the server"),
        ("reader", "a reader of the model"),
        ("any 2 owners", "any 2 owners"),
        ("party:bank", "bank"),
        ("coalition:bank+server", "bank and the server together"),
        ("coalition:bank+clinic+shop", "bank, clinic and shop together"),
    ],
)
def test_an_observer_is_called_by_its_name_or_its_role(name: str, said: str) -> None:
    assert observer_text(name) == said


@pytest.mark.parametrize(
    ("name", "owner", "said"),
    [
        ("columns:bank", "", "all of bank's columns"),
        ("own-part:bank", "clinic", "what bank's columns say of one person"),
        ("others-part", "clinic", "what clinic's columns say of one person"),
        ("others-part", "", "what the others hold about one person"),
        ("record", "clinic", "one person's record, there or blank"),
        ("record-replaced", "", "one person's record, this or any other"),
        ("household", "", "household"),
    ],
)
def test_a_unit_says_whose_part_of_a_person_it_is(name: str, owner: str, said: str) -> None:
    assert unit_text(name, owner=owner) == said


def test_of_two_owners_the_others_part_has_a_name_and_of_three_it_has_none() -> None:
    assert about_text("party:bank", "others-part", ["bank", "shop"]) == unit_text("others-part", owner="shop")
    assert about_text("party:bank", "others-part", ["bank", "shop", "clinic"]) == unit_text("others-part")


def test_several_are_joined() -> None:
    assert observers_text(["reader", "server"]) == "a reader of the model, the server"
    assert joined(["bank"]) == "bank" and joined(["bank", "shop", "clinic"]) == "bank, shop and clinic"


def test_coalitions_without_names_are_told_by_their_size() -> None:
    assert (Colluding(2).name, Colluding(3).sentence) == ("any 2 owners", "Any coalition of 3 owners")
