"""The page about two organisations is followed as written, in three folders of one machine for three machines.

Files travel as the page says: invitations, requests and signed answers; nothing else does. Commands after the heading
about failures have tests of their own.
"""

import contextlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from certificates import Root
from cli_project import Said
from fences import FENCE, ROOT, perform, says, script
from kits import make_kit
from live_federation import PATIENCE_SECONDS, free_port
from test_followed import note

from colonnade.cli.party import request_text
from colonnade.federation.federation import check_plan, release_before
from colonnade.federation.job import Job
from colonnade.federation.party_file import federation_of, party_files
from colonnade.federation.train import spec_of
from colonnade.sites.approval import Asking
from colonnade.sites.policy import Approvers, Policy

PAGE = ROOT / "docs" / "two-organisations.md"
HOST, PORT = "server.example.org", "8002"
COLONNADE = (sys.executable, "-c", "from colonnade.cli import main; main()")
FINGERPRINT = re.compile(r"^ +((?:[0-9A-F]{4} ){15}[0-9A-F]{4})$", re.MULTILINE)
JOB_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}")


@dataclass
class Stage:
    folder: Path
    port: str = field(default_factory=lambda: str(free_port()))
    announced: dict[str, str] = field(default_factory=dict)
    job: str = ""
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def follow(self, text: str) -> tuple[int, int]:
        """Write the files of a page and run its commands where it says; how many ran, and how many outputs it shows."""
        ran, compared, printed = 0, 0, ""
        for fence in FENCE.finditer(text):
            kind, rest = fence["kind"], fence["rest"].strip()
            if kind == "toml":
                self.write(rest, fence["text"])
            elif kind == "sh":
                printed = ""
                for line in fence["text"].splitlines():
                    command, _, where = line.partition("   # ")
                    if where != "everywhere":
                        code = int(rest.removeprefix("exits ") or 0)
                        printed += self.perform(command, where.removeprefix("at the "), code)
                        ran += 1
            elif kind == "text" and printed:
                shown = re.sub(r"[0-9A-F]{4} [0-9A-F]{4} …", "…", fence["text"])
                assert says(printed, shown), f"the page shows\n{shown}\nbut this was printed\n{printed}"
                printed, compared = "", compared + 1
        return ran, compared

    def perform(self, line: str, place: str, code: int) -> str:
        """Run one command where the page says, and return what it printed, in the page's own names."""
        assert place in ("server", "bank", "clinic"), line
        program, *words = shlex.split(self._here(line))
        home = self.folder / place
        home.mkdir(exist_ok=True)
        if words[:2] == ["federation", "new"]:
            words += ["--port", self.port]
        for option in [at for at, word in enumerate(words) if word == "--fingerprint"]:
            words[option + 1] = self.announced["root" if words[1] == "join" else words[3].split(".")[0]]
        if words[:2] == ["party", "start"]:
            return self._there(self._stay([*COLONNADE, *words], home))
        if program == "colonnade" and self.running:
            done = subprocess.run([*COLONNADE, *words], cwd=home, capture_output=True, text=True, check=False)
            said = Said(done.returncode, done.stdout, done.stderr)
        else:
            with contextlib.chdir(home):
                said = perform(shlex.join([program, *words]))
        assert said.code == code, f"{line}: {said}"
        self._send(words, place, said.out)
        return self._there(said.out + (said.err if code else ""))

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
            self.announced["root"] = FINGERPRINT.findall(printed)[0]
            for party in ("bank", "clinic"):
                (self.folder / party).mkdir()
                shutil.copy(self.folder / place / "ours" / "invitation.json", self.folder / party)
        elif words[:2] == ["federation", "approve"]:
            signed = words[3].replace("request", "signed")
            shutil.copy(self.folder / place / signed, self.folder / words[3].split(".")[0])
        elif words[:2] == ["federation", "renew"] and printed.startswith("Send"):
            self.announced[place] = FINGERPRINT.findall(printed)[0]
            request = self.folder / place / words[2] / "renewal" / place / f"{place}.request.zip"
            shutil.copy(request, self.folder / "server")
        elif words[:2] == ["federation", "exclude"]:
            shutil.copy(self.folder / place / words[2] / "excluded.json", self.folder / "bank")
        elif words[:3] == ["federation", "join", "invitation.json"]:
            self.announced[place] = FINGERPRINT.findall(printed)[0]
            request = self.folder / place / place / "request" / place / f"{place}.request.zip"
            shutil.copy(request, self.folder / "server")
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
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            assert process.wait(PATIENCE_SECONDS) == 0


def test_the_policies_of_the_page_accept_its_job_and_the_request_shows_every_unit_of_it(
    tmp_path: Path,
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        if fence["kind"] == "toml" and (name := fence["rest"].strip()):
            (tmp_path / name).write_text(fence["text"], encoding="utf-8")
    script(ROOT / "examples/messy/make_tables.py", str(tmp_path))
    job = Job.load(tmp_path / "job.toml")
    federation = federation_of(job, party_files(job, []))
    plan = check_plan(spec_of(job), federation.group, federation.tables)
    assert plan is not None
    named = re.findall(r"^```toml\n# the (\w+)'s policy\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    policies = {name: Policy.parse(policy) for name, policy in named}
    assert set(policies) == {"bank", "clinic"}
    for party, policy in policies.items():
        policy.check_job(job, party)
        policy.check_plan(plan)
        policy.check_release(release_before(plan, party))
    kit = make_kit(tmp_path / "kits", Root.make(), "bank")
    asking = Asking(
        kit=kit,
        policy=policies["bank"].model_copy(update={"people": Approvers(1, ())}),
        ledger=federation.ledgers["bank"],
        dataset=federation.datasets["bank"],
        run="JOB-ID",
        job=job.model_copy(update={"timeout": 4 * 3600.0}),
        party="bank",
    )
    printed = TIME.sub("…", request_text(asking._request({}, [plan], None), Path("bank/kit")))
    (page,) = [f["text"] for f in FENCE.finditer(text) if f["text"].startswith("JOB-ID  who will")]
    assert says(printed, TIME.sub("…", page)), f"the page shows\n{page}\nbut this was printed\n{printed}"


@pytest.mark.slow
def test_two_organisations_train_by_following_the_page(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    try:
        followed = stage.follow(PAGE.read_text(encoding="utf-8").split("## When something fails")[0])
    finally:
        stage.leave()
    assert followed == (19, 13)
    left = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in left
    assert (tmp_path / "bank" / "bank" / "kit" / "runs" / stage.job / "release.npz").exists()
    note(Path(__file__).name)
