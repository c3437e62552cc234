"""`colonnade federation`: make a federation between machines, join one, and change one that runs."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from colonnade.cli.screen import Answer, argument, check_free, flag, group, option
from colonnade.errors import InputError, KitError

if TYPE_CHECKING:
    from colonnade.sites.provision import Invitation


# Other members and folders of a federation are called so.
RESERVED = ("server", "admin", "administrators", "root", "audit", "requests")
FOLDER = argument("FOLDER", "The federation's folder, with the root's key.")


def new(
    folder: Path = argument("FOLDER", "A new folder for root, kits and invitation."),
    host: str = option("--host", "The name under which parties reach the server.", "localhost"),
    port: int = option("--port", "The one port that the server listens on.", 8002),
    name: str = option("--name", "The federation's name.", "colonnade"),
    four_eyes: bool = flag("--four-eyes", "One administrator proposes every job, and another confirms it."),
    party: list[str] = option(
        "--party -p NAME", "For trying out: make this party's kit here too; repeat.", []
    ),
) -> Answer:
    """Make a federation: its root, the server's kit, the administrator's kit and an invitation for parties.

    With --party all keys are made in one place, which is for trying out on one machine.

    Examples:
      colonnade federation new ours --host server.example.org
      colonnade federation new trial --party bank --party insurer
    """
    from colonnade.sites.provision import INVITATION, all_kits, create_federation

    check_free(folder, "", "Name a new folder.")
    if party and four_eyes:
        raise InputError(
            '--four-eyes: with --party nobody joins, and no policies are drafted. Write submission = "two" into them.'
        )
    for member in party:
        _check_name(member, "--party")
        if party.count(member) > 1:
            raise InputError(f"--party: {member!r} is named twice. Name each party once.")
    try:
        if party:
            invitation, _ = all_kits(folder, name, party, host=host, port=port)
        else:
            submission: Literal["one", "two"] = "two" if four_eyes else "one"
            invitation = create_federation(folder, name, host=host, port=port, submission=submission)
    except BaseException:
        # Half a federation is none, and holds keys.
        shutil.rmtree(folder, ignore_errors=True)
        raise
    facts = {
        "folder": str(folder),
        "invitation": str(folder / INVITATION),
        "fingerprint": invitation.root,
        "kits": sorted(str(path.parent) for path in folder.glob("*/startup")),
    }
    server, admin = folder / "server", folder / "admin"
    text = (
        f"Federation {name!r} in {folder}, whose server is {host}:{port}.\n"
        f"  server's kit        {server}   start it: colonnade party start {server}\n"
        f"  administrator's kit {admin}    submit with it: colonnade job submit JOB --kit {admin}\n"
    )
    text += "".join(f"  {member}'s kit, for trying out: {folder / member}\n" for member in party)
    if not party:
        text += (
            f"  the root's key      {folder / 'root'}     it issues certificates in any name: keep it offline\n"
            f"\nSend {folder / INVITATION} to every party, and tell them the root's fingerprint by telephone:\n"
        )
    return Answer(facts, f"{text}  {spaced(invitation.root)}")


def join(
    file: Path = argument("FILE", "The invitation, or the signed answer to a request."),
    party: str = option("--as NAME", "This party's name in jobs.", ...),
    folder: Path | None = option("--folder", "This party's folder; NAME if left out."),
    fingerprint: str = option(
        "--fingerprint",
        "The root's fingerprint, as it was told by another way than the invitation came by.",
        "",
    ),
) -> Answer:
    """Join a federation: first with its invitation, then with the signed answer to the request that made.

    The first call makes this party's key and a request to send back. The second makes the kit.

    Examples:
      colonnade federation join invitation.json --as bank
      colonnade federation join bank.signed.zip --as bank --fingerprint "AB 12 ..."
    """
    _check_name(party, "--as")
    home = folder or Path(party)
    if file.suffix == ".json":
        facts = _ask(file, party, home, fingerprint)
        text = (
            f"{party}'s key is in {facts['key']} and stays there.\nSend {facts['request']} to whoever made the "
            f"federation, and tell them its key's fingerprint by telephone:\n  {spaced(facts['fingerprint'])}\n"
            "When the signed answer comes:\n"
            f"  colonnade federation join {party}.signed.zip --as {party} --fingerprint FINGERPRINT"
        )
    else:
        facts = _receive(file, party, home, fingerprint)
        text = (
            f"{party}'s kit is in {facts['kit']}. Its certificate's fingerprint, for peers who pin it:\n"
            f"  {spaced(facts['fingerprint'])}\nSay in {facts['policy']} what {party} agrees to, then start it:\n"
            f"  colonnade party start {facts['kit']} --party {party}.toml --policy {facts['policy']}"
        )
    return Answer(facts, text)


def approve(
    folder: Path = FOLDER,
    request: Path = argument("REQUEST", "A party's request."),
    fingerprint: str = option(
        "--fingerprint", "The key's fingerprint, as the party told it by telephone.", ""
    ),
    renewal: bool = flag("--renews", "The party has a certificate, and asks for another with a new key."),
) -> Answer:
    """Issue a party's certificate, as the holder of the federation's root. Ask the party whether it asked for one.

    Example:
      colonnade federation approve ours bank.request.zip --fingerprint "AB 12 ..."
    """
    from colonnade.runtime.identity import plain_fingerprint
    from colonnade.sites.provision import approve_party

    signed = request.with_name(request.name.replace(".request", ".signed"))
    # The answer to an earlier request is what a renewal replaces, once it has been issued.
    check_free(None if renewal else signed, "", "Remove it to approve again.")
    expected = plain_fingerprint(fingerprint) if fingerprint else ""
    with tempfile.TemporaryDirectory(dir=signed.parent) as drafts:
        issued = approve_party(folder, request, Path(drafts) / signed.name, key=expected, renews=renewal)
        (Path(drafts) / signed.name).replace(signed)
    text = (
        f"{issued.name} has a certificate for the key that it told. Send {signed} back to it."
        if expected
        else f"{issued.name} has a certificate for the key\n  {spaced(issued.key)}\n"
        f"Ask {issued.name} by telephone whether that is its key, and only then send {signed} back."
    )
    return Answer({"party": issued.name, "key": issued.key, "signed": str(signed)}, text)


def renew(
    target: Path = argument("KIT|FOLDER", "A party's kit, or the federation's folder."),
    signed: Path | None = argument("[SIGNED]", "The signed answer to the request.", None),
) -> Answer:
    """Renew certificates; kits stay otherwise as they are, with their runs, records and pins.

    A party asks with its kit, and calls again with the signed answer. Whoever made the federation renews the server's
    and the administrator's kit in its folder. Members are renewed while they do not run; peers that pin the old
    certificate pin the new one.

    Examples:
      colonnade federation renew bank/kit
      colonnade federation renew bank/kit bank.signed.zip
      colonnade federation renew ours
    """
    from colonnade.runtime.identity import fingerprint
    from colonnade.sites import provision as renewal
    from colonnade.sites.kit import Kit
    from colonnade.sites.provision import INVITATION, CertificateRequest

    if (target / INVITATION).exists():
        kits = renewal.renew_own(target)
    elif signed is None:
        kit = Kit.load(target)
        request = renewal.ask_to_renew(kit)
        key = CertificateRequest.load(request).key
        text = (
            f"Send {request} to whoever made the federation, and tell them its key's fingerprint by telephone:\n"
            f"  {spaced(key)}\nWhen the signed answer comes:\n"
            f"  colonnade federation renew {target} {kit.identity().name}.signed.zip"
        )
        return Answer({"request": str(request), "fingerprint": key}, text)
    else:
        kit = Kit.load(target)
        requested = kit.path / renewal.REQUESTED / kit.identity().name
        if not requested.exists():
            raise KitError(
                f"{requested} does not exist: ask first, with `colonnade federation renew {target}`."
            )
        if not signed.exists():
            raise KitError(f"{signed} does not exist. Name the signed answer (.zip).")
        kits = (renewal.renew(kit, signed, requested),)
    facts, lines = [], []
    for kit in kits:
        certificate = kit.identity().certificate
        until, named = f"{certificate.not_valid_after_utc:%Y-%m-%d}", fingerprint(certificate)
        facts.append({"kit": str(kit.path), "until": until, "fingerprint": named})
        lines.append(f"{kit.path} has a certificate until {until}, fingerprint\n  {spaced(named)}")
    return Answer(facts, "\n".join(lines))


def administrator(
    folder: Path = FOLDER,
    name: str = argument("NAME", "The administrator's name: letters, digits and _."),
    may: str = option(
        "--may WHAT", "submit: submit, stop and look. stop: stop and look. view: look only.", ...
    ),
) -> Answer:
    """Make the kit of one more administrator, who may submit jobs, stop them, or only look.

    Example:
      colonnade federation administrator ours eve --may view
    """
    from colonnade.sites.kit import MAY
    from colonnade.sites.provision import ADMINISTRATORS, add_administrator

    if may not in MAY:
        raise InputError(
            f"--may: {may!r} is nothing that an administrator may do; say one of {', '.join(MAY)}."
        )
    if not name.isidentifier() or not name.isascii() or name == "admin":
        raise InputError(
            f"{name!r} is not a valid name for an administrator: use letters, digits and _, a letter first, and "
            "not 'admin', which is the first one."
        )
    check_free(folder / ADMINISTRATORS / name, "", "Name another administrator.")
    kit = add_administrator(folder, name, role=MAY[may])
    return Answer(
        {"kit": str(kit.path), "name": kit.identity().name, "may": may},
        f"{name}'s kit is in {kit.path}. Hand it over by a way that nobody else reads, and keep no copy.",
    )


def exclude(
    folder: Path = FOLDER,
    member: str = argument("NAME", "Who is to be excluded."),
    is_administrator: bool = flag("--administrator", "NAME is an administrator's, not a party's."),
    lost_key: bool = flag("--lost-key", "Exclude its present key only: it may join again with another one."),
) -> Answer:
    """Exclude a party or an administrator at once: a list that the root signs, for every member to take.

    Examples:
      colonnade federation exclude ours shop
      colonnade federation exclude ours eve --administrator
    """
    from colonnade.sites.kit import EXCLUDED
    from colonnade.sites.provision import administrator_name
    from colonnade.sites.provision import exclude as excluded

    if not member.isidentifier():
        raise InputError(
            f"{member!r} is not a valid name of {'an administrator' if is_administrator else 'a party'}: "
            "use letters, digits and _."
        )
    if is_administrator and lost_key:
        raise InputError(
            "--lost-key is for parties. Exclude the administrator, and make them a kit under another name with "
            "`colonnade federation administrator`."
        )
    exclusions = excluded(
        folder, administrator_name(member) if is_administrator else member, lost_key=lost_key
    )
    path, kind = folder / EXCLUDED, "administrator" if is_administrator else "party"
    what = f"{member}'s key" if lost_key else member
    return Answer(
        {"list": str(path), "number": exclusions.number, kind: member},
        f"{what} is excluded by list {exclusions.number}, which the server's kit in {folder} has.\n"
        f"Send {path} to every party: colonnade federation take KIT {EXCLUDED}",
    )


def take(
    kit: Path = argument("KIT", "The kit that is to know it."),
    given: Path = argument("FILE", "The list of exclusions."),
) -> Answer:
    """Take a list of exclusions into a kit, if the federation's root signed it and it is not an older one.

    Example:
      colonnade federation take bank/kit excluded.json
    """
    from colonnade.sites.kit import Kit, install

    own = Kit.load(kit)
    exclusions = install(own.path, given, own.trust().root)
    names = [name for name, _, _ in exclusions.entries]
    return Answer(
        {"kit": str(own.path), "number": exclusions.number, "excluded": names},
        f"{own.path} has list {exclusions.number}: {', '.join(names) or 'nobody'} excluded.",
    )


def _ask(file: Path, party: str, home: Path, fingerprint: str) -> dict[str, str]:
    from colonnade.sites.provision import INVITATION, CertificateRequest, Invitation, ask_for_kit

    invitation = Invitation.load(file)
    if fingerprint:
        _check_announced(fingerprint, invitation)
    check_free(home / "request", "", "Remove it to ask again with a new key.")
    home.mkdir(parents=True, exist_ok=True)
    request = ask_for_kit(home / "request", invitation, {"name": party, "type": "client", "org": party})
    invitation.save(home / INVITATION)
    key = request.parent / f"{party}.key"
    return {"key": str(key), "request": str(request), "fingerprint": CertificateRequest.load(request).key}


def _receive(file: Path, party: str, home: Path, expected: str) -> dict[str, str]:
    from colonnade.runtime import identity
    from colonnade.sites.provision import INVITATION, Invitation, make_kit

    if not file.exists():
        raise KitError(f"{file} does not exist. Name the invitation (.json) or the signed answer (.zip).")
    kit, policy = home / "kit", home / f"{party}.policy.toml"
    check_free(kit, "", "Remove it, or name another --folder.")
    invitation = Invitation.load(home / INVITATION)
    _check_announced(expected, invitation)
    member_kit = make_kit(file, home / "request" / party, kit, root=invitation.root)
    if not policy.exists():
        policy.write_text(policy_text(party, invitation.submission), encoding="utf-8")
    print_of_key = identity.fingerprint(member_kit.identity().certificate)
    return {"kit": str(kit), "policy": str(policy), "fingerprint": print_of_key}


def policy_text(party: str, submission: Literal["one", "two"]) -> str:
    """The draft of a party's policy, whose line on `submission` is a comment where one administrator is enough."""
    text = Path(__file__).with_name("policy.toml").read_text(encoding="utf-8").replace("PARTY", party)
    return text if submission == "two" else text.replace("\nsubmission =", "\n# submission =")


def _check_name(party: str, option: str) -> None:
    if not party.isidentifier() or party in RESERVED:
        raise InputError(
            f"{option}: {party!r} is not a valid name for a party: use letters, digits and _, a letter first, and "
            f"none of {', '.join(RESERVED)}."
        )


def _check_announced(expected: str, invitation: Invitation) -> None:
    from colonnade.runtime.identity import plain_fingerprint

    if not expected:
        raise KitError(
            "--fingerprint: whoever can change the invitation on its way could be in the middle of this federation. "
            f"Ask by telephone whether the root's fingerprint is {spaced(invitation.root)}, and give it here."
        )
    if plain_fingerprint(expected) != invitation.root:
        raise KitError(
            "--fingerprint: what you were told is not the fingerprint in the invitation, so one of them is forged or "
            "of another federation. Stop, and ask again."
        )


def spaced(fingerprint: str) -> str:
    """A fingerprint as two people read it to each other."""
    return " ".join(fingerprint[at : at + 4].upper() for at in range(0, len(fingerprint), 4))


app = group(
    """Make a federation of organisations on their own machines, and join one.

Keys are made where their owners are. What travels: an invitation, a request, a certificate; none of them is secret.
docs/two-organisations.md goes through it step by step.
""",
    *(new, join, approve, renew, administrator, exclude, take),
)
