"""Members that meet choose the newest wire version that all of them speak, or stop before anything is charged."""

from __future__ import annotations

from typing import Any

import pytest

from colonnade.errors import PlansDiffer, RemoteProtocolError
from colonnade.ledger import Ledger
from colonnade.protocols.agreement import common_wire, meet
from colonnade.runtime.party import Group, Party
from colonnade.runtime.run import PartyInputs, run_here
from colonnade.runtime.wire import SPOKEN, Message

GROUP = Group.of(("bank", "insurer"), active="bank")


def says(**wire: Any) -> dict[str, Message]:
    return {name: Message({"wire": versions}) for name, versions in wire.items()}


def test_the_newest_common_version_is_chosen_and_without_one_the_member_behind_is_named() -> None:
    assert common_wire(says(bank=[2, 5], insurer=[3, 4], server=[2, 7])) == 4
    assert common_wire(says(bank=[2, 2], insurer=[2, 9])) == 2
    with pytest.raises(PlansDiffer, match=r"insurer speaks wire versions up to 3, and bank from 4 on"):
        common_wire(says(bank=[4, 5], insurer=[2, 3], server=[2, 5]))


@pytest.mark.parametrize("wrong", [None, 2, [2], [3, 2], ["2", "2"], [2, 2, 2]])
def test_who_names_no_versions_is_refused(wrong: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="insurer named no wire versions"):
        common_wire(says(bank=[2, 2], insurer=wrong))


def meeting(spoken: tuple[int, int]) -> dict[str, Any]:
    async def program(party: Party, _: None) -> int:
        await meet(party, spoken if party.name == "server" else SPOKEN)
        return party.wire

    desks = {name: PartyInputs(Ledger.in_memory(name), None) for name in GROUP.members}
    return dict(run_here(program, GROUP, desks).results)


def test_a_newer_member_is_met_as_far_as_it_speaks_this_version() -> None:
    results = meeting((SPOKEN[0], SPOKEN[1] + 3))
    assert set(results.values()) == {SPOKEN[1]}
    with pytest.raises(PlansDiffer, match="Nothing was released or charged"):
        meeting((SPOKEN[1] + 1, SPOKEN[1] + 1))
