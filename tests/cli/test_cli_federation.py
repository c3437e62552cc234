"""From an invitation to a kit, with keys that never move, and what is said when a step is wrong."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509 import ExtendedKeyUsage
from cryptography.x509.oid import ExtendedKeyUsageOID
from live_federation import complaints, free_port

from colonnade.cli.app import run
from colonnade.errors import InputError
from colonnade.runtime.identity import NotTrusted, fingerprint
from colonnade.sites.kit import Kit
from colonnade.sites.policy import Policy
from colonnade.sites.provision import KEY_BITS, Invitation, ask_for_kit

Said = pytest.CaptureFixture[str]


def said(capsys: Said, *arguments: object) -> Any:
    assert run([*map(str, arguments), "--json"]) == 0, capsys.readouterr()
    return json.loads(capsys.readouterr().out)


def refusal(capsys: Said, *arguments: object) -> str:
    assert run([*map(str, arguments)]) == 3
    return capsys.readouterr().err


def test_a_party_joins_with_two_files_and_its_key_never_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    made = said(capsys, "federation", "new", "ours", "--port", 18002, "--four-eyes")
    assert [Kit.load(kit).kind for kit in ("ours/server", "ours/admin")] == ["server", "admin"]
    requested = said(capsys, "federation", "join", "ours/invitation.json", "--as", "bank")
    request, key = Path(requested["request"]), Path(requested["key"]).read_bytes()
    assert key not in request.read_bytes()
    assert "somebody exchanged the request" in refusal(
        capsys, "federation", "approve", "ours", request, "--fingerprint", "0" * 64
    )
    approved = said(
        capsys, "federation", "approve", "ours", request, "--fingerprint", requested["fingerprint"]
    )
    assert (approved["party"], approved["key"]) == ("bank", requested["fingerprint"])
    signed = Path(approved["signed"])
    assert key not in signed.read_bytes()
    assert "telephone" in refusal(capsys, "federation", "join", signed, "--as", "bank")
    assert "forged" in refusal(
        capsys, "federation", "join", signed, "--as", "bank", "--fingerprint", "0" * 64
    )
    kit = said(capsys, "federation", "join", signed, "--as", "bank", "--fingerprint", made["fingerprint"])
    found = Kit.load(kit["kit"])
    assert (found.kind, found.identity().name, found.server) == ("party", "bank", "localhost")
    assert found.address == ("localhost", 18002)
    assert found.startup["client"]["connection_security"] == "mtls"
    drafted = Path(kit["policy"])
    assert "bank" in drafted.read_text() and Policy.load(drafted).four_eyes
    # All that is missing is a server that answers and the party's own files.
    assert run(["doctor", str(found.path), "--json"]) == 3
    findings = {item["what"]: item["fine"] for item in json.loads(capsys.readouterr().out)["findings"]}
    assert [what for what, fine in findings.items() if not fine] == ["server", "files"]
    assert "does not know the party file" in refusal(capsys, "party", "start", found.path)
    assert "exists already" in refusal(capsys, "federation", "join", "ours/invitation.json", "--as", "bank")
    assert "exists already" in refusal(capsys, "federation", "new", "ours")
    assert "say one of submit, stop, view" in refusal(
        capsys, "federation", "administrator", "ours", "eve", "--may", "rule"
    )
    assert "--four-eyes" in refusal(capsys, "federation", "new", "trial", "--party", "bank", "--four-eyes")
    assert "--lost-key is for parties" in refusal(
        capsys, "federation", "exclude", "ours", "eve", "--administrator", "--lost-key"
    )
    assert "not a valid name for an administrator" in refusal(
        capsys, "federation", "administrator", "ours", "../eve", "--may", "view"
    )
    each_certificate_is_good_for_one_use(Kit.load("ours/server"), Kit.load("ours/admin"), found)
    a_member_is_excluded_by_a_list_that_the_root_signed(found, capsys)


def each_certificate_is_good_for_one_use(*kits: Kit) -> None:
    for kit in kits:
        certificate = kit.identity().certificate
        key = certificate.public_key()
        assert isinstance(key, RSAPublicKey) and key.key_size == KEY_BITS
        uses = certificate.extensions.get_extension_for_class(ExtendedKeyUsage).value
        wanted = ExtendedKeyUsageOID.SERVER_AUTH if kit.kind == "server" else ExtendedKeyUsageOID.CLIENT_AUTH
        assert list(uses) == [wanted]


@pytest.mark.slow
def test_a_certificate_is_renewed_and_the_kit_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    made = said(capsys, "federation", "new", "ours", "--port", 18002)
    joined = said(capsys, "federation", "join", "ours/invitation.json", "--as", "bank")
    announced = ("--fingerprint", joined["fingerprint"])
    first = said(capsys, "federation", "approve", "ours", joined["request"], *announced)["signed"]
    root = ("--fingerprint", made["fingerprint"])
    kit = Kit.load(str(said(capsys, "federation", "join", first, "--as", "bank", *root)["kit"]))
    kit.tell_site({"pins": {"shop": "0" * 64}})
    kit.run_folder("j1").mkdir(parents=True)
    before = kit.identity()
    requested = said(capsys, "federation", "renew", kit.path)
    assert "exists already" in refusal(capsys, "federation", "renew", kit.path)
    # As in the runbook: whoever approves has the answer to the first request where the second one comes to.
    request = Path(first).with_name("bank.request.zip")
    shutil.copy(requested["request"], request)
    assert "exists already" in refusal(capsys, "federation", "approve", "ours", request)
    Path(first).rename("first.signed.zip")
    assert "could then be two" in refusal(capsys, "federation", "approve", "ours", request)
    Path("first.signed.zip").rename(str(first))
    before_it = Path(first).read_bytes()
    assert "Ask by telephone" in refusal(capsys, "federation", "approve", "ours", request, "--renews")
    assert Path(first).read_bytes() == before_it
    announced = ("--fingerprint", requested["fingerprint"])
    signed = said(capsys, "federation", "approve", "ours", request, *announced, "--renews")["signed"]
    assert signed == first and Path(signed).read_bytes() != before_it
    key = (kit.path / "startup" / "client.key").read_bytes()
    (renewed,) = said(capsys, "federation", "renew", kit.path, signed)
    assert not any(key in path.read_bytes() for path in kit.path.rglob("*") if path.is_file())
    after = Kit.load(kit.path)
    assert (
        renewed["fingerprint"] == fingerprint(after.identity().certificate) != fingerprint(before.certificate)
    )
    assert after.trust().certificate(after.identity().to_bytes(), "bank")
    assert after.site() == kit.site() and after.run_folder("j1").exists()
    assert "ask first" in refusal(capsys, "federation", "renew", kit.path, signed)
    server = Kit.load("ours/server").identity().certificate
    both = said(capsys, "federation", "renew", "ours")
    assert [Path(one["kit"]).name for one in both] == ["server", "admin"]
    assert Kit.load("ours/server").identity().certificate != server
    assert "whoever made the federation renews" in refusal(capsys, "federation", "renew", "ours/server")


def a_member_is_excluded_by_a_list_that_the_root_signed(kit: Kit, capsys: Said) -> None:
    """At once, at whoever has the list; nobody else can write one, and no older one is taken.

    Here and not a test of its own, because making a federation takes longer than this.
    """
    der, other = kit.identity().to_bytes(), Kit.load("ours/server")
    assert other.trust().certificate(der, "bank")
    said(capsys, "federation", "exclude", "ours", "bank", "--lost-key")
    first = Path("ours/excluded.json").read_text()
    with pytest.raises(NotTrusted, match="'bank' was excluded from this federation on 20"):
        other.trust().certificate(Kit.load(kit.path).identity().to_bytes(), "bank")
    assert other.exclusions().since("bank") is None, "the name may join again, with another key"
    assert "has no key of 'bank'" in refusal(capsys, "federation", "exclude", "ours", "bank", "--lost-key")
    assert said(capsys, "federation", "exclude", "ours", "shop")["number"] == 2
    assert other.exclusions().since("shop")
    assert said(capsys, "federation", "take", kit.path, "ours/excluded.json")["excluded"] == ["bank", "shop"]
    Path("first.json").write_text(first)
    assert "an older one would let somebody in" in refusal(
        capsys, "federation", "take", kit.path, "first.json"
    )
    Path("forged.json").write_text(first.replace('"number": 1', '"number": 9'))
    assert "that this federation's root signed" in refusal(
        capsys, "federation", "take", kit.path, "forged.json"
    )
    assert "only whoever made the federation" in refusal(capsys, "federation", "exclude", "bank", "shop")


def test_only_parties_are_approved_and_each_name_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.chdir(tmp_path)
    made = Invitation("ours", "localhost", 18003, "0" * 64)
    (tmp_path / "root").mkdir()
    requests = {
        kind: ask_for_kit(tmp_path / kind, made, {"name": name, "org": "mallory", **described})
        for kind, name, described in (
            ("admin", "mallory@example.org", {"type": "admin", "role": "lead"}),
            ("party", "bank", {"type": "client"}),
            ("double", "localhost", {"type": "client"}),
        )
    }
    announced = refusal(capsys, "federation", "approve", tmp_path, requests["admin"])
    assert "only parties are approved" in announced and "mallory@example.org" in announced
    assert "only whoever made" in refusal(capsys, "federation", "approve", tmp_path, requests["party"])
    (tmp_path / "root" / "approved.json").write_text('{"bank": "another key"}')
    assert "could then be two" in refusal(capsys, "federation", "approve", tmp_path, requests["party"])
    made.save(tmp_path / "invitation.json")
    assert "which is the server's" in refusal(capsys, "federation", "approve", tmp_path, requests["double"])


def test_an_invitation_of_an_earlier_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "invitation.json"
    path.write_text('{"federation": "ours", "host": "server.example", "port": 8002, "root": "0"}')
    with pytest.raises(InputError, match="of an earlier version of Colonnade"):
        Invitation.load(path)


@pytest.mark.slow
def test_two_organisations_and_a_server_on_one_machine_train_and_complain_of_nothing(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "colonnade"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom colonnade.cli import main\nmain()\n")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [Path(__file__).parents[2] / "deploy" / "demo-federation.sh", "demo"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PORT": str(free_port())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "finished" in done.stdout
    kits = tmp_path / "demo" / "kits"
    assert not any(
        str(kits) in " ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])
    )
    # From the start of every process to its end a run that goes well complains of nothing.
    assert not complaints(kits)
    with (kits / "server" / "log.txt").open("a") as log:
        log.write("2030-01-01 - Any - ERROR - a control\n")
    assert complaints(kits) == ["server/log.txt: 2030-01-01 - Any - ERROR - a control"]
