"""The opponents' own environment: made on first use, from `opponents.txt`, beside the project's own.

Other benchmarks call `measured_against`; run as a script, it only prepares the environment. phe gets gmpy2, which it
uses when it finds it, so that both sides do their arithmetic on GMP's best.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".bench-venv"
LIST = HERE / "opponents.txt"


def opponents_python() -> Path:
    """The interpreter that has the opponents; installs them if their list changed."""
    python = ENVIRONMENT / "bin" / "python"
    ready = ENVIRONMENT / "ready"
    wanted = hashlib.sha256(LIST.read_bytes()).hexdigest()
    if not (ready.exists() and ready.read_text() == wanted):
        venv.create(ENVIRONMENT, clear=True, symlinks=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(LIST)]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the opponents in {LIST.name} could not be installed:\n{done.stderr}")
        ready.write_text(wanted)
    return python


def measured_against(script: str, *arguments: object) -> dict[str, Any]:
    """The figures that one script of `against/` prints, from the opponents' environment."""
    command = [str(opponents_python()), str(HERE / "against" / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{script} failed in the opponents' environment:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON line")
    arguments = parser.parse_args()
    python = opponents_python()
    listed = subprocess.run(
        [str(python), "-m", "pip", "list", "--format", "json"], capture_output=True, text=True
    )
    names = {line.split("==")[0] for line in LIST.read_text().splitlines() if "==" in line}
    found = {package["name"]: package["version"] for package in json.loads(listed.stdout)}
    versions = {name: found.get(name, found.get(name.replace("-", "_"), "")) for name in sorted(names)}
    print(json.dumps({"opponents": versions}) if arguments.json else versions, file=sys.stdout)


if __name__ == "__main__":
    main()
