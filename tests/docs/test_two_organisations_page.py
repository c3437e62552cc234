"""The page about two organisations is followed as written, in three folders of one machine for three machines.

Files travel as the page says: invitations, requests and signed answers; nothing else does. Commands after the heading
about failures have tests of their own.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fences import FENCE, ROOT, says

PAGE = ROOT / "docs" / "two-organisations.md"
HOST, PORT = "server.example.org", "8002"
FINGERPRINT = re.compile(r"^ +((?:[0-9A-F]{4} ){15}[0-9A-F]{4})$", re.MULTILINE)
JOB_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PATIENCE_SECONDS = 900.0


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@dataclass
class Stage:
    """Three folders, what was told by telephone, and the processes that stay."""

    folder: Path
    port: str = field(default_factory=free_port)
    told: dict[str, str] = field(default_factory=dict)
    job: str = ""
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def perform(self, line: str, place: str) -> str:
        """Run one command where the page says, and return what it printed, in the page's own names."""
        program, *words = shlex.split(self._here(line))
        home = self.folder / place
        home.mkdir(exist_ok=True)
        command = [sys.executable, str(ROOT / words[0]), *words[1:]]
        if program == "colonnade":
            words += ["--port", self.port] if words[:2] == ["federation", "new"] else []
            for option in [at for at, word in enumerate(words) if word == "--fingerprint"]:
                words[option + 1] = self.told["root" if words[1] == "join" else words[3].split(".")[0]]
            command = [sys.executable, "-c", "from colonnade.cli import main; main()", *words]
        if words[:2] == ["party", "start"]:
            return self._there(self._stay(command, home))
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        self._send(words, place, done.stdout)
        return self._there(done.stdout)

    def _stay(self, command: list[str], home: Path) -> str:
        process = subprocess.Popen(
            command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.running.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    def _send(self, words: list[str], place: str, printed: str) -> None:
        """What the page says is sent to somebody, or told by telephone."""
        if words[:2] == ["federation", "new"]:
            self.told["root"] = FINGERPRINT.findall(printed)[0]
            for party in ("bank", "clinic"):
                (self.folder / party).mkdir()
                shutil.copy(self.folder / place / "ours" / "invitation.json", self.folder / party)
        elif words[:2] == ["federation", "approve"]:
            signed = words[3].replace("request", "signed")
            shutil.copy(self.folder / place / signed, self.folder / words[3].split(".")[0])
        elif words[:3] == ["federation", "join", "invitation.json"]:
            self.told[place] = FINGERPRINT.findall(printed)[0]
            shutil.copy(
                self.folder / place / place / "request" / place / f"{place}.request.zip",
                self.folder / "server",
            )
        elif words[:2] == ["job", "submit"]:
            self.job = JOB_ID.findall(printed)[0]

    def write(self, name: str, text: str) -> None:
        """A file that the page shows, with whom it belongs to; a policy is its party's draft, filled in."""
        policy = re.match(r"# the (\w+)'s policy", text)
        place = policy[1] if policy else {"job": "server"}.get(name.split(".")[0], name.split(".")[0])
        path = self.folder / place / (f"{place}/{place}.policy.toml" if policy else name)
        assert not policy or "methods = []" in path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")

    def _here(self, line: str) -> str:
        return line.replace(HOST, "localhost").replace("JOB-ID", self.job)

    def _there(self, printed: str) -> str:
        named = printed.replace("localhost", HOST).replace(f"{HOST}:{self.port}", f"{HOST}:{PORT}")
        named = named.replace(f"port {self.port}", f"port {PORT}")
        return named.replace(self.job, "JOB-ID") if self.job else named

    def leave(self) -> None:
        """End what stays, as a service manager would; nothing is left of it."""
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            assert process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.slow
def test_two_organisations_train_by_following_the_page(tmp_path: Path) -> None:
    stage, compared, ran = Stage(tmp_path), 0, 0
    printed = ""
    text = PAGE.read_text(encoding="utf-8").split("## When something fails")[0]
    try:
        for fence in FENCE.finditer(text):
            kind, rest = fence["kind"], fence["rest"].strip()
            if kind == "toml":
                stage.write(rest, fence["text"])
            elif kind == "sh":
                printed = ""
                for line in fence["text"].splitlines():
                    command, _, where = line.partition("   # ")
                    if where == "everywhere":
                        continue
                    place = where.removeprefix("at the ")
                    assert place in ("server", "bank", "clinic"), line
                    printed += stage.perform(command, place)
                    ran += 1
            elif kind == "text" and printed:
                shown = re.sub(r"[0-9A-F]{4} [0-9A-F]{4} …", "…", fence["text"])
                assert says(printed, shown), f"the page shows\n{shown}\nbut this was printed\n{printed}"
                printed, compared = "", compared + 1
    finally:
        began = time.monotonic()
        stage.leave()
    assert time.monotonic() - began < PATIENCE_SECONDS
    assert (ran, compared) == (19, 13)
    left = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in left
    assert (tmp_path / "bank" / "bank" / "kit" / "runs" / stage.job / "release.npz").exists()
