"""An administrator whom a list excludes is refused by the server at any command, and by every party with the list."""

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

from colonnade.runtime.identity import Identity
from colonnade.sites.kit import EXCLUDED, Exclusions, Kit
from colonnade.sites.presence import ExcludedAdminFilter, KitHeartbeat

ROOT = Root.make()
ADA, EVE = "ada@colonnade.local", "eve@colonnade.local"


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


@pytest.mark.parametrize("command", ["submit_job", "abort_job", "list_jobs"])
def test_the_server_refuses_every_command_of_an_administrator_who_is_excluded(
    tmp_path: Path, command: str
) -> None:
    turnstile = ExcludedAdminFilter(str(excluding(tmp_path, "server").path))
    eve, ada = Line(EVE), Line(ADA)
    assert not turnstile.pre_command(eve, [command]) and turnstile.pre_command(ada, [command])
    assert (
        "eve@colonnade.local was excluded from this federation on" in eve.announced[0] and not ada.announced
    )


def test_nobody_who_is_excluded_logs_in(tmp_path: Path) -> None:
    turnstile, line = ExcludedAdminFilter(str(excluding(tmp_path, "server").path)), Line("")
    assert not turnstile.pre_command(line, [InternalCommands.CERT_LOGIN, EVE])
    assert line.announced[0].startswith("REJECT: eve@colonnade.local was excluded")
    assert turnstile.pre_command(line, [InternalCommands.CERT_LOGIN, ADA])
    assert turnstile.pre_command(line, [InternalCommands.CERT_LOGIN])


@pytest.mark.parametrize("role", [FLContextKey.USER_NAME, FLContextKey.SUBMITTER_NAME])
@pytest.mark.parametrize("name", [ADA, EVE])
def test_a_party_that_has_the_list_refuses_what_the_server_passes_on(
    tmp_path: Path, role: str, name: str
) -> None:
    kit, context = excluding(tmp_path, "bank"), FLContext()
    workspace = SimpleNamespace(get_root_dir=lambda: str(kit.path))
    context.set_prop(FLContextKey.WORKSPACE_OBJECT, workspace, private=True)
    context.set_prop(FLContextKey.SECURITY_ITEMS, {role: name}, private=True, sticky=False)
    KitHeartbeat().handle_event(EventType.AUTHORIZE_COMMAND_CHECK, context)
    assert context.get_prop(FLContextKey.AUTHORIZATION_RESULT, True) is (name == ADA)
    assert ("excluded" in context.get_prop(FLContextKey.AUTHORIZATION_REASON, "")) is (name == EVE)
