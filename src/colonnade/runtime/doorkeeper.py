"""Two components that kits name and FLARE loads: the server's keeps the door, a party's notes what it is told there.

They use events and channels of FLARE's that are internal to it; the version is pinned, and the test with real processes
holds what is used here. Nothing that a job carries passes here.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message
from nvflare.fuel.hci.proto import InternalCommands
from nvflare.fuel.hci.server.constants import ConnProps
from nvflare.fuel.hci.server.reg import CommandFilter

from colonnade.runtime.arrival import ASKS, CHANNEL, REFUSED, TOPIC, asked
from colonnade.runtime.identity import NotTrusted
from colonnade.runtime.kit import Kit
from colonnade.runtime.presence import Presence, Roll, copy_of, now

_CHANNEL, _NOTICE = "colonnade presence", "notice"
_COPY = "colonnade_copy"
# Of two processes in one name FLARE sends to the one that connected last, and the other comes back within seconds: said
# this often, with a pause, both hear it.
_TIMES, _REPEAT_SECONDS = 15, 1.0
_logger = logging.getLogger("colonnade.presence")


class Doorkeeper(FLComponent):  # type: ignore[misc]
    """The server's: of two processes with one party's kit the one that was there first stays, and both are told.

    Whoever the federation has excluded by name stays out, and is sent away if it is there; an administrator is refused
    at the next command.
    """

    def __init__(self) -> None:
        super().__init__()
        self._roll = Roll()
        self._lock = threading.Lock()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Look at who is about to come, who registers, who is heard and who leaves."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            # No job runs yet: what is said to be running ended with the process that this one follows.
            fl_ctx.get_engine().job_runner.update_unfinished_jobs(fl_ctx)
        elif event_type == EventType.SYSTEM_START:
            cell = fl_ctx.get_engine().get_cell().core_cell
            cell.register_request_cb(CHANNEL, TOPIC, self._asked, fl_ctx)
            _guard_commands(fl_ctx)
        elif event_type == EventType.CLIENT_REGISTER_RECEIVED:
            self._arrive(fl_ctx)
        elif event_type == EventType.CLIENT_HEARTBEAT_RECEIVED:
            self._hear(fl_ctx)
        elif event_type == EventType.CLIENT_QUIT:
            name, copy = _who(fl_ctx)
            with self._lock:
                self._roll.leave(name, copy)

    def _asked(self, message: Any, fl_ctx: FLContext) -> Any:
        text = message.get_header(ASKS)
        if not isinstance(text, str):
            return fl_ctx.get_engine().server.client_challenge(message)
        kit = Kit.load(fl_ctx.get_engine().args.workspace)
        try:
            name, copy = asked(text, kit.trust(), kit.server)
        except NotTrusted as error:
            return make_reply(ReturnCode.UNAUTHENTICATED, error=str(error))
        with self._lock:
            other = self._roll.other(name, copy, at=time.monotonic())
        reply = make_reply(ReturnCode.OK)
        if other is not None:
            notice = self._refusal(name, copy)
            self._tell(fl_ctx, name, notice)
            _logger.warning("a second process with the kit of %s is about to start, and is refused", name)
            reply.add_headers({REFUSED: notice["why"]})
        return reply

    def _arrive(self, fl_ctx: FLContext) -> None:
        name, copy = _who(fl_ctx)
        if (why := _excluded(fl_ctx.get_engine().args.workspace, name)) is not None:
            self._tell(fl_ctx, name, {"refused": copy, "why": why, "time": now()}, times=_TIMES)
            raise NotAuthenticated(why)
        with self._lock:
            other = self._roll.arrive(name, copy, at=time.monotonic())
        if other is None:
            return
        self._tell(fl_ctx, name, self._refusal(name, copy), times=_TIMES)
        _logger.warning("a second process with the kit of %s was refused", name)
        raise NotAuthenticated(f"{name} is connected already, with another copy of its kit")

    def _hear(self, fl_ctx: FLContext) -> None:
        name, copy = _who(fl_ctx)
        if (why := _excluded(fl_ctx.get_engine().args.workspace, name)) is not None:
            self._tell(fl_ctx, name, {"refused": copy, "why": why, "time": now()}, times=_TIMES)
            # FLARE's own list: without its token the party is sent no job.
            fl_ctx.get_engine().server.client_manager.disable_client(name)
            return
        with self._lock:
            known = self._roll.hear(name, copy, at=time.monotonic())
        if not known:
            self._tell(fl_ctx, name, self._refusal(name, copy), times=_TIMES)
            return
        self._tell(fl_ctx, name, {"heard": copy})

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


class Attendant(FLComponent):  # type: ignore[misc]
    """A party's: says with every message which copy of the kit this is, and notes what the server tells it.

    What an administrator asks whom this party knows to be excluded is refused here too, whatever the server knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kit: Path | None = None
        self._presence: Presence | None = None

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Begin to listen before this party registers."""
        if event_type == EventType.BEFORE_CLIENT_REGISTER:
            self._kit = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
            self._presence = Presence(copy_of(self._kit), since=now())
            self._presence.save(self._kit)
            fl_ctx.set_prop(_COPY, self._presence.copy, private=False, sticky=True)
            fl_ctx.get_engine().get_cell().core_cell.register_request_cb(_CHANNEL, _NOTICE, self._told)

        elif event_type == EventType.AUTHORIZE_COMMAND_CHECK:
            root = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir()
            asking = fl_ctx.get_prop(FLContextKey.SECURITY_ITEMS, {})
            for role in (FLContextKey.USER_NAME, FLContextKey.SUBMITTER_NAME):
                if (why := _excluded(root, str(asking.get(role, "")))) is not None:
                    fl_ctx.set_prop(FLContextKey.AUTHORIZATION_RESULT, False, sticky=False)
                    fl_ctx.set_prop(FLContextKey.AUTHORIZATION_REASON, why, sticky=False)

    def _told(self, message: Any) -> Any:
        if message.get_header(MessageHeaderKey.ORIGIN) != FQCN.ROOT_SERVER or not isinstance(
            message.payload, dict
        ):
            return make_reply(ReturnCode.INVALID_REQUEST)
        with self._lock:
            if self._presence is not None and self._kit is not None:
                presence = self._presence.told(message.payload)
                if presence != self._presence:
                    presence.save(self._kit)
                self._presence = presence
        return make_reply(ReturnCode.OK)


class _Turnstile(CommandFilter):  # type: ignore[misc]
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


def _guard_commands(fl_ctx: FLContext) -> None:
    """Have the server look at who gives a command. FLARE makes what takes commands after it started components."""
    server, root = fl_ctx.get_engine().server, fl_ctx.get_engine().args.workspace
    take = server.set_admin_server

    def taken(admin_server: Any) -> None:
        admin_server.cmd_reg.add_filter(_Turnstile(root))
        take(admin_server)

    server.set_admin_server = taken


def _excluded(root: str, name: str) -> str | None:
    """Why somebody is not let in, if a kit's newest list names them; read anew, so that it holds at once."""
    when = Kit.load(root).exclusions().since(name)
    if when is None:
        return None
    return f"{name} was excluded from this federation on {when[:10]}. Ask whoever made the federation"


def _who(fl_ctx: FLContext) -> tuple[str, str]:
    """Whom a message is from, and which copy of its kit; empty for a kit that does not say."""
    peer = fl_ctx.get_peer_context()
    if peer is None:
        return "", ""
    return str(peer.get_identity_name()), str(peer.get_prop(_COPY, ""))
