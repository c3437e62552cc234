"""Whoever asks whether a copy of a kit may come proves that it holds the kit; an excluded administrator is refused."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from certificates import Root
from kits import make_kit
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.hci.proto import InternalCommands
from nvflare.fuel.hci.server.constants import ConnProps

from colonnade.runtime.identity import Identity, NotTrusted, Trust
from colonnade.sites.kit import EXCLUDED, Exclusions, Kit
from colonnade.sites.presence import ExcludedAdminFilter, KitHeartbeat, question, requested

ROOT = Root.make()
ADA, EVE = "ada@colonnade.local", "eve@colonnade.local"
BANK, SHOP = ROOT.issue("bank"), ROOT.issue("shop")
TRUST = Trust(ROOT.certificate)


def excluding(folder: Path, member: str) -> Kit:
    kit = make_kit(folder, ROOT, member)
    Exclusions().with_one_more(EVE).save(kit.path / "local" / EXCLUDED, Identity(ROOT.certificate, ROOT.key))
    return kit


class Line:
    def __init__(self, name: str) -> None:
        self._name = name
        self.announced: list[str] = []

    def get_prop(self, key: str, default: Any = None) -> Any:
        return self._name if key == ConnProps.USER_NAME else default

    def append_string(self, said: str) -> None:
        self.announced.append(said)

    append_error = append_string


def test_the_server_refuses_every_command_of_an_administrator_who_is_excluded(tmp_path: Path) -> None:
    turnstile = ExcludedAdminFilter(str(excluding(tmp_path, "server").path))
    for command in ("submit_job", "abort_job", "list_jobs"):
        eve, ada = Line(EVE), Line(ADA)
        assert not turnstile.pre_command(eve, [command]) and turnstile.pre_command(ada, [command])
        assert f"{EVE} was excluded from this federation on" in eve.announced[0] and not ada.announced
    line = Line("")
    assert not turnstile.pre_command(line, [InternalCommands.CERT_LOGIN, EVE])
    assert line.announced[0].startswith("REJECT: eve@colonnade.local was excluded")
    assert turnstile.pre_command(line, [InternalCommands.CERT_LOGIN, ADA])
    assert turnstile.pre_command(line, [InternalCommands.CERT_LOGIN])


@pytest.mark.parametrize("role", [FLContextKey.USER_NAME, FLContextKey.SUBMITTER_NAME])
@pytest.mark.parametrize("name", [ADA, EVE])
def test_a_party_with_the_list_refuses_what_the_server_passes(tmp_path: Path, role: str, name: str) -> None:
    kit, context = excluding(tmp_path, "bank"), FLContext()
    workspace = SimpleNamespace(get_root_dir=lambda: str(kit.path))
    context.set_prop(FLContextKey.WORKSPACE_OBJECT, workspace, private=True)
    context.set_prop(FLContextKey.SECURITY_ITEMS, {role: name}, private=True, sticky=False)
    KitHeartbeat().handle_event(EventType.AUTHORIZE_COMMAND_CHECK, context)
    assert context.get_prop(FLContextKey.AUTHORIZATION_RESULT, True) is (name == ADA)
    assert ("excluded" in context.get_prop(FLContextKey.AUTHORIZATION_REASON, "")) is (name == EVE)


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
    for nonsense in ("", "[]", "{}", "[" * 100_000):
        with pytest.raises(NotTrusted, match="does not say who it is"):
            requested(nonsense, TRUST, "server.example")
