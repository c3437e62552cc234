"""Whether the server hears a party, and whether another process uses the same kit."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import logging
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.hci.proto import InternalCommands
from nvflare.fuel.hci.server.constants import ConnProps
from nvflare.fuel.hci.server.reg import CommandFilter
from nvflare.private.defs import CellChannel, CellChannelTopic

from colonnade.federation.files import write_whole
from colonnade.runtime.identity import Identity, NotTrusted, Trust
from colonnade.sites.kit import Kit

PRESENCE = "presence.json"
#: Whoever was not heard for so long does not keep another process with its kit away.
GONE_SECONDS = 25.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MACHINE = Path("/etc/machine-id")
_MOST_OTHERS = 20


def copy_of(kit: Path) -> str:
    """Which copy of a kit this is: the same after a restart, another in another folder or on another machine."""
    traits = [str(kit), socket.gethostname()]
    for path in (_BOOT, _MACHINE):
        with suppress(OSError):
            traits.append(path.read_text(encoding="ascii").strip())
    return hashlib.sha256("\0".join(traits).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Presence:
    """What a party's process was told: when the server last heard it, why it is refused, when another copy was."""

    copy: str
    since: str
    heard: str = ""
    refused: str = ""
    others: tuple[str, ...] = ()

    def seconds_since_contact(self) -> float | None:
        if not self.heard:
            return None
        now = datetime.datetime.now(datetime.UTC)
        return max(0.0, (now - datetime.datetime.fromisoformat(self.heard)).total_seconds())

    def after(self, notice: Mapping[str, Any]) -> Presence:
        if notice.get("heard") == self.copy:
            return replace(self, heard=now(), refused="")
        if notice.get("refused") == self.copy:
            return replace(self, refused=str(notice.get("why", "")))
        if "refused" in notice:
            others = dict.fromkeys((*self.others, str(notice.get("time", ""))))
            return replace(self, others=tuple(others)[-_MOST_OTHERS:])
        return self

    def save(self, kit: Path) -> None:
        write_whole(kit / PRESENCE, json.dumps(asdict(self)) + "\n", own=True)

    @classmethod
    def load(cls, kit: Path) -> Presence | None:
        try:
            fields = json.loads((kit / PRESENCE).read_text(encoding="utf-8"))
            return cls(**{**fields, "others": tuple(fields["others"])})
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


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
    said = {"party": identity.name, "copy": copy, "server": server}
    signed = identity.sign(_statement(said))
    return json.dumps({**said, "certificate": identity.to_bytes().hex(), "signature": signed.hex()})


def requested(text: str, trust: Trust, server: str) -> tuple[str, str]:
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
    """Why the server refuses this copy of a party's kit; empty if it does not, or does not answer in time."""
    # A process of its own asks: FLARE may wait for good for a connection that is to end soon after it was made.
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


_CHANNEL, _NOTICE = "colonnade presence", "notice"
_COPY = "colonnade_copy"
# Of two processes in one name FLARE sends to the one that connected last, and the other comes back within seconds: said
# this often, with a pause, both hear it.
_TIMES, _REPEAT_SECONDS = 15, 1.0
_logger = logging.getLogger("colonnade.presence")


class DuplicateKitGuard(FLComponent):  # type: ignore[misc]
    """The server's: of two processes with one kit the first stays, and both are told; who is excluded stays out."""

    def __init__(self) -> None:
        super().__init__()
        # By party the copy of its kit that was heard, and when last.
        self._known: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            # No job runs yet: what is said to be running ended with the process that this one follows.
            fl_ctx.get_engine().job_runner.update_unfinished_jobs(fl_ctx)
        elif event_type == EventType.SYSTEM_START:
            cell = fl_ctx.get_engine().get_cell().core_cell
            cell.register_request_cb(CHANNEL, TOPIC, self._requested, fl_ctx)
            server, root = fl_ctx.get_engine().server, fl_ctx.get_engine().args.workspace
            set_admin_server = server.set_admin_server

            def set_with_filter(admin_server: Any) -> None:
                # FLARE makes what takes commands after it started components.
                admin_server.cmd_reg.add_filter(ExcludedAdminFilter(root))
                set_admin_server(admin_server)

            server.set_admin_server = set_with_filter
        elif event_type in (EventType.CLIENT_REGISTER_RECEIVED, EventType.CLIENT_HEARTBEAT_RECEIVED):
            self._admit(fl_ctx, registers=event_type == EventType.CLIENT_REGISTER_RECEIVED)
        elif event_type == EventType.CLIENT_QUIT:
            name, copy = _who(fl_ctx)
            with self._lock:
                if self._known.get(name, ("", 0.0))[0] == copy:
                    del self._known[name]

    def _requested(self, message: Any, fl_ctx: FLContext) -> Any:
        text = message.get_header(ASKS)
        if not isinstance(text, str):
            return fl_ctx.get_engine().server.client_challenge(message)
        kit = Kit.load(fl_ctx.get_engine().args.workspace)
        try:
            name, copy = requested(text, kit.trust(), kit.server)
        except NotTrusted as error:
            return make_reply(ReturnCode.UNAUTHENTICATED, error=str(error))
        with self._lock:
            occupied = self._another(name, copy, within=GONE_SECONDS)
        reply = make_reply(ReturnCode.OK)
        if occupied:
            notice = self._refusal(name, copy)
            self._tell(fl_ctx, name, notice)
            _logger.warning("a second process with the kit of %s is about to start, and is refused", name)
            reply.add_headers({REFUSED: notice["why"]})
        return reply

    def _admit(self, fl_ctx: FLContext, *, registers: bool) -> None:
        name, copy = _who(fl_ctx)
        if (why := _excluded(fl_ctx.get_engine().args.workspace, name)) is not None:
            self._tell(fl_ctx, name, {"refused": copy, "why": why, "time": now()}, times=_TIMES)
            if registers:
                raise NotAuthenticated(why)
            # FLARE's own list: without its token the party is sent no job.
            fl_ctx.get_engine().server.client_manager.disable_client(name)
            return
        with self._lock:
            # One that registers takes the place of a copy that is gone; one that is only heard never does.
            refused = self._another(name, copy, within=GONE_SECONDS if registers else math.inf)
            if not refused:
                self._known[name] = (copy, time.monotonic())
        if refused:
            self._tell(fl_ctx, name, self._refusal(name, copy), times=_TIMES)
            if registers:
                _logger.warning("a second process with the kit of %s was refused", name)
                raise NotAuthenticated(f"{name} is connected already, with another copy of its kit")
        elif not registers:
            self._tell(fl_ctx, name, {"heard": copy})

    def _another(self, name: str, copy: str, *, within: float) -> bool:
        known, contact = self._known.get(name, (copy, 0.0))
        return known != copy and time.monotonic() - contact < within

    def _refusal(self, name: str, copy: str) -> dict[str, Any]:
        why = (
            f"{name} is connected already, with another copy of this kit, and whoever was there first stays. A kit is "
            "one member: end one of them. To move a kit, end it where it runs, then start it elsewhere"
        )
        return {"refused": copy, "why": why, "time": now()}

    def _tell(self, fl_ctx: FLContext, name: str, notice: dict[str, Any], *, times: int = 1) -> None:
        cell = fl_ctx.get_engine().get_cell()

        def tell() -> None:
            for number in range(times):
                time.sleep(_REPEAT_SECONDS if number else 0.0)
                with contextlib.suppress(Exception):
                    cell.core_cell.fire_and_forget(
                        _CHANNEL, _NOTICE, [name], new_cell_message({}, dict(notice)), optional=True
                    )

        threading.Thread(target=tell, daemon=True).start()


class KitHeartbeat(FLComponent):  # type: ignore[misc]
    """A party's: says which copy of the kit this is, notes what it is told, and refuses excluded administrators."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kit: Path | None = None
        self._presence: Presence | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.BEFORE_CLIENT_REGISTER:
            self._kit = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
            self._presence = Presence(copy_of(self._kit), since=now())
            self._presence.save(self._kit)
            fl_ctx.set_prop(_COPY, self._presence.copy, private=False, sticky=True)
            fl_ctx.get_engine().get_cell().core_cell.register_request_cb(_CHANNEL, _NOTICE, self._announced)

        elif event_type == EventType.AUTHORIZE_COMMAND_CHECK:
            root = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir()
            asking = fl_ctx.get_prop(FLContextKey.SECURITY_ITEMS, {})
            for role in (FLContextKey.USER_NAME, FLContextKey.SUBMITTER_NAME):
                if (why := _excluded(root, str(asking.get(role, "")))) is not None:
                    fl_ctx.set_prop(FLContextKey.AUTHORIZATION_RESULT, False, sticky=False)
                    fl_ctx.set_prop(FLContextKey.AUTHORIZATION_REASON, why, sticky=False)

    def _announced(self, message: Any) -> Any:
        if message.get_header(MessageHeaderKey.ORIGIN) != FQCN.ROOT_SERVER or not isinstance(
            message.payload, dict
        ):
            return make_reply(ReturnCode.INVALID_REQUEST)
        with self._lock:
            if self._presence is not None and self._kit is not None:
                presence = self._presence.after(message.payload)
                if presence != self._presence:
                    presence.save(self._kit)
                self._presence = presence
        return make_reply(ReturnCode.OK)


class ExcludedAdminFilter(CommandFilter):  # type: ignore[misc]
    """Refuses every command of an administrator whom the server's list excludes, the first of which is to log in."""

    def __init__(self, root: str) -> None:
        self._root = root

    def pre_command(self, conn: Any, args: list[str]) -> bool:
        login = args[0] == InternalCommands.CERT_LOGIN
        name = args[1] if login and len(args) > 1 else str(conn.get_prop(ConnProps.USER_NAME, ""))
        why = _excluded(self._root, name)
        if why is None:
            return True
        _logger.warning("%s", why)
        conn.append_string(f"REJECT: {why}") if login else conn.append_error(why)
        return False


def _excluded(root: str, name: str) -> str | None:
    """Why somebody is not let in, if a kit's newest list names them; read anew, so that it holds at once."""
    when = Kit.load(root).exclusions().since(name)
    if when is None:
        return None
    return f"{name} was excluded from this federation on {when[:10]}. Ask whoever made the federation"


def _who(fl_ctx: FLContext) -> tuple[str, str]:
    peer = fl_ctx.get_peer_context()
    if peer is None:
        return "", ""
    return str(peer.get_identity_name()), str(peer.get_prop(_COPY, ""))
