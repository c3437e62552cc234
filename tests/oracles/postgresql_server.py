"""A PostgreSQL server of the tests' own, on loopback, for as long as they run."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "only-for-this-server"


def _program(name: str) -> str | None:
    """On the path, or where Debian's package puts it; PostgreSQL's other programs must lie beside it."""
    found = [Path(path) for path in (shutil.which(name),) if path]
    found += sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return str(found[0].resolve()) if found else None


@contextmanager
def serve() -> Iterator[str]:
    """The address of a server that wants the password in the variable TEST_DB_PASSWORD."""
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
