"""Asking a federation's server for jobs, through FLARE's own interfaces."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from colonnade.errors import KitError, PeerTimeout, RemoteProtocolError
from colonnade.runtime.kit import COORDINATOR, MEMBER, Kit

# A server that does much else answers late; one that is gone is noticed at once.
_ANSWER_SECONDS = 30.0


def answers(address: tuple[str, int], *, timeout: float = 1.0) -> bool:
    try:
        socket.create_connection(address, timeout).close()
    except OSError:
        return False
    return True


def wait_for_server(kit: Kit, *, timeout: float = 60.0) -> None:
    deadline = time.monotonic() + timeout
    while not answers(kit.address):
        if time.monotonic() > deadline:
            host, port = kit.address
            raise PeerTimeout(
                f"nothing answers at {host}:{port}, where this federation's server should be. Ask whether it was "
                "started, and whether a firewall lets you through."
            )
        time.sleep(0.2)


def write_job(
    folder: Path, text: str, *, name: str, parties: Sequence[str], resumes: str = "", proposal: str = ""
) -> None:
    """A FLARE job: three JSON files that name two installed classes and carry the job's own text. No code.

    `proposal` is what two administrators signed, for the parties.
    """
    described = {
        "name": name,
        "resource_spec": {},
        "deploy_map": {"coordinator": ["server"], "member": list(parties)},
        "min_clients": len(parties),
        "mandatory_clients": list(parties),
    }
    arguments = {"job": text, "resumes": resumes}
    coordinator = {"id": "coordinator", "path": COORDINATOR, "args": arguments}
    signed = {"proposal": proposal} if proposal else {}
    member = {"tasks": ["*"], "executor": {"path": MEMBER, "args": {**arguments, **signed}}}
    for path, content in (
        ("meta.json", described),
        ("coordinator/config/config_fed_server.json", {"format_version": 2, "workflows": [coordinator]}),
        ("member/config/config_fed_client.json", {"format_version": 2, "executors": [member]}),
    ):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


class Administration:
    """A session with a federation's server, with the rights of an administrator's kit. Close it, or use `with`."""

    def __init__(self, kit: Kit, *, timeout: float = 30.0) -> None:
        if kit.kind != "admin":
            raise KitError(f"{kit.path} is a {kit.kind}'s kit. Jobs are submitted with the administrator's.")
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        self._kit = kit
        wait_for_server(kit, timeout=timeout)
        with _quietly(f"the federation's server refused {kit.path.name}"):
            self._session = new_secure_session(kit.identity().name, str(kit.path), timeout=timeout)
            self._session.set_timeout(_ANSWER_SECONDS)

    def __enter__(self) -> Administration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(Exception), _quietly("closing the session"):
            self._session.close()

    def submit(
        self, text: str, *, name: str, parties: Sequence[str], resumes: str = "", proposal: str = ""
    ) -> str:
        """Submit a job, or what goes on with an earlier one, and return the id that FLARE gives it."""
        with tempfile.TemporaryDirectory() as folder, _quietly("the job was not accepted"):
            write_job(Path(folder), text, name=name, parties=parties, resumes=resumes, proposal=proposal)
            return str(self._session.submit_job(folder))

    def submit_folder(self, folder: Path) -> str:
        """Submit a FLARE job folder as it is."""
        with _quietly("the job was not accepted"):
            return str(self._session.submit_job(str(folder)))

    def status(self, job: str) -> dict[str, Any]:
        """What FLARE knows of a job: its status, when it was submitted and by whom."""
        with _quietly(f"there is no job {job}"):
            return dict(self._session.get_job_meta(job))

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs that this administrator may see, the last one first."""
        with _quietly("the jobs cannot be listed"):
            return [dict(job) for job in self._session.list_jobs(detailed=True, reverse=True)]

    def parties(self) -> list[str]:
        with _quietly("the parties cannot be listed"):
            return [client.name for client in self._session.get_system_info().client_info]

    def stop(self, job: str) -> None:
        """Stop a job at every member."""
        with _quietly(f"job {job} cannot be stopped"):
            self._session.abort_job(job)

    def download(self, job: str, folder: Path) -> Path:
        """What the server's process of a finished job left for the administrator."""
        with _quietly(f"what is left of job {job} cannot be downloaded"):
            return Path(self._session.download_job_result(job, str(folder)))


@contextmanager
def _quietly(refusal: str) -> Iterator[None]:
    """FLARE prints and logs while it talks; what goes wrong is said once, in words."""
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except (OSError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise RemoteProtocolError(f"{refusal} ({type(error).__name__}: {error}).") from None
