"""Settings and fixtures for every test: no test passes or fails by the clock, nor by the luck of its examples.

`make test` draws the same examples and the same noise on every machine; the studies (`make reproduce`) draw new ones at
every run.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from _pytest.doctest import DoctestModule
from browser import Browser, BrowserError, browser, executable
from cli_project import Cli, Project, train, train_until_killed, write_project
from hypothesis import settings

from colonnade import randomness
from colonnade.models import uncertainty

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
PASSWORD = "only-for-this-server"
REHEARSED_IN_FULL = ("test_label_views", "test_learn_uncertainty")
_EXAMPLES = os.environ.get("COLONNADE_EXAMPLES", "same")
settings.load_profile(_EXAMPLES)


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same noise where the same examples are drawn; hear Ctrl-C, which shells keep from what runs behind."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if _EXAMPLES == "same":
        config.pluginmanager.register(SameNoise(), "same noise")
    config.pluginmanager.register(OnlyExamples(), "only examples")
    # Typer puts all verbs together anew at every call, which takes longer than most refusals.
    vars(typer.main)["get_command"] = cache(typer.main.get_command)


class SameNoise:
    """A plugin that stands in for the operating system's generator, so that no draw decides whether a test passes.

    What the product draws in this process comes, for the time of a test, from a stream with the test's name. A fixture
    that several tests share has a stream with its own name, since which of them needs it first depends on how tests are
    spread. Processes that a test starts draw as users' do.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begin("collection")
        vars(randomness)["os"] = SimpleNamespace(urandom=self.urandom)

    def urandom(self, count: int) -> bytes:
        with self._lock:
            return self._stream.bytes(count)

    def _begin(self, name: str) -> None:
        self._stream = randomness.SeededRandomness(f"test {name}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._begin(f"{item.nodeid}, its fixtures")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._begin(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        before, which = self._stream, getattr(request, "param_index", 0)
        self._begin(f"{fixturedef.baseid}, {fixturedef.argname} {which}")
        try:
            return (yield)
        finally:
            self._stream = before


class OnlyExamples:
    """Examples are looked for where there are some: of five hundred modules a dozen have any."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        found = yield
        return [
            one for one in found if not isinstance(one, DoctestModule) or b">>> " in file_path.read_bytes()
        ]


@pytest.fixture(autouse=True)
def few_rehearsals(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's intervals by as few rehearsals as there may be, where they are not the claim: half of a short run."""
    if request.path.stem not in REHEARSED_IN_FULL:
        monkeypatch.setattr(uncertainty, "MOST_DRAWS", uncertainty.FEWEST_DRAWS)


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    """The machine's browser. Whoever has none is told; where the tests are the gate, that is a failure."""
    try:
        executable()
    except BrowserError as error:
        if os.environ.get("COLONNADE_BROWSER") == "required":
            raise
        pytest.skip(str(error))
    with browser() as found:
        yield found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The files under which the command line is tried."""
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files after a run, which no test changes."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setattr(uncertainty, "MOST_DRAWS", uncertainty.FEWEST_DRAWS)
        assert train(write_project(folder), "--output", "run") == 0
    return folder


@pytest.fixture
def trained(trained_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the files after a run, with its ledgers, for a test to go on with."""
    shutil.copytree(trained_once, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def killed(project: Project) -> Project:
    """The files after a run that was killed right after its release was opened."""
    train_until_killed(project, "runs/first")
    return project


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def _program(name: str) -> str | None:
    """On the path, or where Debian's package puts it; PostgreSQL's other programs must lie beside it."""
    found = [Path(path) for path in (shutil.which(name),) if path]
    found += sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return str(found[0].resolve()) if found else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of one PostgreSQL server for all tests, which wants the password in TEST_DB_PASSWORD."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra 'postgres')")
    initdb, control = _program("initdb"), _program("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("no PostgreSQL server is installed: initdb and pg_ctl were not found")
    # PostgreSQL refuses to run as root.
    prefix: Sequence[str] = ()
    user = pwd.getpwuid(os.getuid())
    if user.pw_uid == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("PostgreSQL does not run as root, and setpriv was not found")
        user = pwd.getpwnam("nobody")
        prefix = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Not under pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="colonnade-postgresql-") as name:
        folder = Path(name)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        for path in (folder, secret):
            os.chown(path, user.pw_uid, user.pw_gid)

        def run(*command: str) -> None:
            home = {**os.environ, "HOME": name}
            done = subprocess.run([*prefix, *command], cwd=folder, capture_output=True, text=True, env=home)
            if done.returncode:
                log = folder / "log"
                details = log.read_text() if log.exists() else done.stderr
                pytest.fail(f"{command[0]} failed: {details}")

        data = folder / "data"
        settings = ("listen_addresses=127.0.0.1", "fsync=off", "lock_timeout=20s", "shared_buffers=16MB")
        options = f"-p {port} -k {folder} " + " ".join(f"-c {setting}" for setting in settings)
        run(
            initdb, "-D", str(data), "-U", "tester", "--auth=scram-sha-256", f"--pwfile={secret}",
            "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync",
        )  # fmt: skip
        run(control, "-D", str(data), "-l", str(folder / "log"), "-o", options, "-w", "-s", "start")
        os.environ["TEST_DB_PASSWORD"] = PASSWORD
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            run(control, "-D", str(data), "-m", "immediate", "-s", "stop")
            del os.environ["TEST_DB_PASSWORD"]
