"""`colonnade federation renew`, `administrator`, `exclude` and `take`: what changes in a federation that runs."""

from __future__ import annotations

from pathlib import Path

import typer

from colonnade.cli.options import AS_JSON
from colonnade.cli.screen import say, say_json
from colonnade.errors import InputError, KitError, NameTaken


def renew(
    target: Path = typer.Argument(
        ..., metavar="KIT|FOLDER", help="A party's kit, or the federation's folder."
    ),
    signed: Path | None = typer.Argument(None, metavar="[SIGNED]", help="The signed answer to the request."),
    as_json: bool = AS_JSON,
) -> None:
    """Renew certificates; kits stay otherwise as they are, with their runs, records and pins.

    A party asks with its kit, and calls again with the signed answer. Whoever made the federation renews the server's
    and the administrator's kit in its folder. Members are renewed while they do not run; peers that pin the old
    certificate pin the new one.

    Examples:

      colonnade federation renew bank/kit

      colonnade federation renew bank/kit bank.signed.zip

      colonnade federation renew ours
    """
    from colonnade.runtime import renewal
    from colonnade.runtime.identity import fingerprint
    from colonnade.runtime.kit import Kit
    from colonnade.runtime.provision import INVITATION, CertificateRequest

    if (target / INVITATION).exists():
        kits = renewal.renew_own(target)
    elif signed is None:
        kit = Kit.load(target)
        request = renewal.ask_to_renew(kit)
        key = CertificateRequest.load(request).key
        if as_json:
            say_json({"request": str(request), "fingerprint": key})
            return
        name = kit.identity().name
        say(
            f"Send {request} to whoever made the federation, and tell them its key's fingerprint by telephone:\n"
            f"  {spaced(key)}\nWhen the signed answer comes:\n  colonnade federation renew {target} {name}.signed.zip"
        )
        return
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
    facts = [
        {
            "kit": str(kit.path),
            "until": f"{kit.identity().certificate.not_valid_after_utc:%Y-%m-%d}",
            "fingerprint": fingerprint(kit.identity().certificate),
        }
        for kit in kits
    ]
    if as_json:
        say_json(facts)
        return
    for fact in facts:
        say(
            f"{fact['kit']} has a certificate until {fact['until']}, fingerprint\n  {spaced(fact['fingerprint'])}"
        )


def administrator(
    folder: Path = typer.Argument(
        ..., metavar="FOLDER", help="The federation's folder, with the root's key."
    ),
    name: str = typer.Argument(..., metavar="NAME", help="The administrator's name: letters, digits and _."),
    may: str = typer.Option(
        ...,
        "--may",
        metavar="WHAT",
        help="submit: submit, stop and look. stop: stop and look. view: look only.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Make the kit of one more administrator, who may submit jobs, stop them, or only look.

    Example:

      colonnade federation administrator ours eve --may view
    """
    from colonnade.runtime.kit import MAY
    from colonnade.runtime.provision import ADMINISTRATORS, add_administrator

    if may not in MAY:
        raise InputError(
            f"--may: {may!r} is nothing that an administrator may do; say one of {', '.join(MAY)}."
        )
    if not name.isidentifier() or not name.isascii() or name == "admin":
        raise InputError(
            f"{name!r} is no name for an administrator: use letters, digits and _, a letter first, and not 'admin', "
            "which is the first one."
        )
    if (folder / ADMINISTRATORS / name).exists():
        raise NameTaken(f"{folder / ADMINISTRATORS / name} exists already. Name another administrator.")
    kit = add_administrator(folder, name, role=MAY[may])
    if as_json:
        say_json({"kit": str(kit.path), "name": kit.identity().name, "may": may})
    else:
        say(f"{name}'s kit is in {kit.path}. Hand it over by a way that nobody else reads, and keep no copy.")


def exclude(
    folder: Path = typer.Argument(
        ..., metavar="FOLDER", help="The federation's folder, with the root's key."
    ),
    member: str = typer.Argument(..., metavar="NAME", help="Who is to be excluded."),
    is_administrator: bool = typer.Option(
        False, "--administrator", help="NAME is an administrator's, not a party's."
    ),
    lost_key: bool = typer.Option(
        False, "--lost-key", help="Exclude its present key only: it may join again with another one."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Exclude a party or an administrator at once: a list that the root signs, for every member to take.

    Examples:

      colonnade federation exclude ours shop

      colonnade federation exclude ours eve --administrator
    """
    from colonnade.runtime.exclusion import EXCLUDED
    from colonnade.runtime.provision import administrator_name
    from colonnade.runtime.renewal import exclude as excluded

    if not member.isidentifier():
        raise InputError(
            f"{member!r} is no name of {'an administrator' if is_administrator else 'a party'}: letters, digits and _."
        )
    if is_administrator and lost_key:
        raise InputError(
            "--lost-key is for parties. Exclude the administrator, and make them a kit under another name with "
            "`colonnade federation administrator`."
        )
    exclusions = excluded(
        folder, administrator_name(member) if is_administrator else member, lost_key=lost_key
    )
    path = folder / EXCLUDED
    if as_json:
        say_json(
            {
                "list": str(path),
                "number": exclusions.number,
                "administrator" if is_administrator else "party": member,
            }
        )
        return
    what = f"{member}'s key" if lost_key else member
    say(f"{what} is excluded by list {exclusions.number}, which the server's kit in {folder} has.")
    say(f"Send {path} to every party: colonnade federation take KIT {EXCLUDED}")


def take(
    kit: Path = typer.Argument(..., metavar="KIT", help="The kit that is to know it."),
    given: Path = typer.Argument(..., metavar="FILE", help="The list of exclusions."),
    as_json: bool = AS_JSON,
) -> None:
    """Take a list of exclusions into a kit, if the federation's root signed it and it is not an older one.

    Example:

      colonnade federation take bank/kit excluded.json
    """
    from colonnade.runtime.exclusion import install
    from colonnade.runtime.kit import Kit

    own = Kit.load(kit)
    exclusions = install(own.path, given, own.trust().root)
    names = [name for name, _, _ in exclusions.entries]
    if as_json:
        say_json({"kit": str(own.path), "number": exclusions.number, "excluded": names})
        return
    say(f"{own.path} has list {exclusions.number}: {', '.join(names) or 'nobody'} excluded.")


def spaced(fingerprint: str) -> str:
    """A fingerprint as two people read it to each other."""
    return " ".join(fingerprint[at : at + 4].upper() for at in range(0, len(fingerprint), 4))
