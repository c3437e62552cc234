"""Asking the server, before a party's process starts, whether another copy of its kit is there already.

FLARE knows a process by its party's name: a second one in the same name takes the connection from the first, and
neither hears all that is said to it. So the question is put under another name, by a connection that ends with it. It
travels where members prove who they are, because whoever asks it has no token yet, and is signed with the kit's key.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from contextlib import redirect_stdout, suppress
from typing import Any

from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.private.defs import CellChannel, CellChannelTopic

from colonnade.runtime.identity import Identity, NotTrusted, Trust
from colonnade.runtime.kit import Kit
from colonnade.runtime.presence import copy_of

CHANNEL, TOPIC = str(CellChannel.SERVER_MAIN), str(CellChannelTopic.Challenge)
#: Under this header the question is put, and under that one it is answered: why the copy is refused, or nothing.
ASKS, REFUSED = "colonnade_arrives", "colonnade_refused"
_PURPOSE = b"colonnade arrival "
_ANSWER_SECONDS = 10.0
# Starting Python and FLARE included, on a machine with much else to do.
_WHOLE_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
# What FLARE answers while the connection is being made.
_NOT_YET = (ReturnCode.TARGET_UNREACHABLE, ReturnCode.COMM_ERROR)


def question(identity: Identity, copy: str, server: str) -> str:
    """What a party says of itself: its name, which copy of its kit it is, and a signature on both."""
    said = {"party": identity.name, "copy": copy, "server": server}
    signed = identity.sign(_statement(said))
    return json.dumps({**said, "certificate": identity.to_bytes().hex(), "signature": signed.hex()})


def asked(text: str, trust: Trust, server: str) -> tuple[str, str]:
    """Party and copy of a question that the party's own key signed for this server; otherwise `NotTrusted`."""
    try:
        fields = json.loads(text)
        said = {key: str(fields[key]) for key in ("party", "copy", "server")}
        der, signature = bytes.fromhex(fields["certificate"]), bytes.fromhex(fields["signature"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NotTrusted("it does not say who it is") from None
    if said["server"] != server:
        raise NotTrusted(f"it asks {said['server']!r}, not this server")
    trust.check_signature(trust.certificate(der, said["party"]), _statement(said), signature)
    return said["party"], said["copy"]


def refusal(kit: Kit) -> str:
    """Why the server refuses this copy of a party's kit; empty if it does not, or does not answer in time.

    A process of its own asks: FLARE may wait for good for a connection that is to end soon after it was made.
    """
    command = [sys.executable, "-m", __name__, str(kit.path)]
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_WHOLE_SECONDS)
        if done.returncode == 0:
            return done.stdout.strip()
    return ""


def _ask(kit: Kit) -> str:
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    identity, startup = kit.identity(), kit.path / "startup"
    host, port = kit.address
    scheme = kit.startup["servers"][0]["service"].get("scheme", "grpc")
    cell = Cell(
        fqcn=FQCN.join([identity.name, f"starting-{os.getpid()}"]),
        root_url=f"{scheme}://{host}:{port}",
        secure=True,
        credentials={
            DriverParams.CA_CERT.value: str(startup / "rootCA.pem"),
            DriverParams.CLIENT_CERT.value: str(startup / "client.crt"),
            DriverParams.CLIENT_KEY.value: str(startup / "client.key"),
        },
        create_internal_listener=False,
        auth_identity=identity.name,
        auth_identity_map={FQCN.ROOT_SERVER: kit.server},
    )
    cell.start()
    said = question(identity, copy_of(kit.path), kit.server)
    deadline = time.monotonic() + _ANSWER_SECONDS
    while time.monotonic() < deadline:
        message = new_cell_message({ASKS: said}, None)
        reply = cell.core_cell.send_request(
            CHANNEL, TOPIC, FQCN.ROOT_SERVER, message, _ANSWER_SECONDS, optional=True
        )
        if reply.get_header(MessageHeaderKey.RETURN_CODE) not in _NOT_YET:
            return str(reply.get_header(REFUSED, ""))
        time.sleep(_PAUSE_SECONDS)
    return ""


def _statement(said: dict[str, Any]) -> bytes:
    return _PURPOSE + json.dumps(said, sort_keys=True).encode()


if __name__ == "__main__":
    # FLARE prints what it likes; the answer is what this process says.
    with redirect_stdout(sys.stderr):
        answer = _ask(Kit.load(sys.argv[1]))
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()
    os._exit(0)
