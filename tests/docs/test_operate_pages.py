"""The runbook is followed as written after the page about two organisations, and what `deploy` holds is in order."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from certificates import Root
from fences import FENCE, ROOT
from kits import make_kit
from test_followed import note
from test_two_organisations_page import PAGE, Stage

from colonnade.cli.party import served
from colonnade.sites.presence import Presence, copy_of, now

RUNBOOK = ROOT / "docs" / "operate" / "runbook.md"
DEPLOY = ROOT / "deploy"


@pytest.mark.slow
def test_every_command_of_the_runbook_does_what_the_page_says(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    # A federation, two kits and their files: all of the page before its members start.
    stage.follow(PAGE.read_text(encoding="utf-8").split("## 4. Start")[0])
    bank = tmp_path / "bank"
    announced = {"party": str(bank / "bank.toml"), "policy": str(bank / "bank/bank.policy.toml")}
    (bank / "bank/kit/local/colonnade.json").write_text(json.dumps(announced))
    job = next(fence for fence in FENCE.finditer(PAGE.read_text()) if fence["rest"].strip() == "job.toml")
    (tmp_path / "server" / "job.toml").write_text(job["text"])
    assert stage.follow(RUNBOOK.read_text(encoding="utf-8")) == (16, 6)
    note(Path(__file__).name)


def test_the_image_runs_as_nobody_in_particular_and_members_have_read_only_roots() -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER 10001:10001$", image, re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", image, re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())
    members = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]
    assert set(members) == {"server", "bank", "clinic", "insurer"}
    for name, member in members.items():
        assert member["read_only"] and member["cap_drop"] == ["ALL"] and member["hostname"] == name
        assert member["volumes"] == [f"./members/{name}:/member"]


def test_the_probe_of_the_image_asks_the_process_that_runs_and_loads_nothing(tmp_path: Path) -> None:
    image = (DEPLOY / "Dockerfile").read_text()
    (probe,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", image, re.MULTILINE)
    (started,) = re.findall(r"^CMD (\[.*\])$", image, re.MULTILINE)
    program, options, code = json.loads(probe)
    port = json.loads(started)[-1]
    # Isolated and without site-packages: what it could import is the standard library.
    assert (program, options, json.loads(started)[-2]) == ("python", "-ISc", "--metrics")
    assert code.count(port) == 2
    root = Root.make(days=400)
    kit = make_kit(tmp_path, root, "bank", identity=root.issue("bank", days=300))

    def requested(number: int) -> int:
        command = [sys.executable, options, code.replace(port, str(number))]
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode

    with served(kit, 0) as number:
        assert requested(number) == 1
        Presence(copy_of(kit.path), now(), now()).save(kit.path)
    with served(kit, number):
        assert requested(number) == 0
    assert requested(number) != 0


def test_the_port_of_the_unit_is_nobody_elses_and_can_be_chosen() -> None:
    unit = (DEPLOY / "colonnade@.service").read_text()
    (port,) = re.findall(r"^Environment=METRICS=(\d+)$", unit, re.MULTILINE)
    assert not 9100 <= int(port) <= 9999
    assert re.search(r"^EnvironmentFile=-/etc/colonnade/%i.env$", unit, re.MULTILINE)
    assert re.search(r"^ExecStart=.* --metrics \$\{METRICS\}$", unit, re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("unit", ["colonnade@.service", "colonnade-clean@.service", "colonnade-clean@.timer"])
def test_systemd_takes_the_units(unit: str, tmp_path: Path) -> None:
    for name in {unit, unit.replace("timer", "service")}:
        text = (DEPLOY / name).read_text().replace("/opt/colonnade/bin/colonnade", "/bin/true")
        (tmp_path / name.replace("@", "@bank")).write_text(text)
    command = ["systemd-analyze", "verify", str(tmp_path / unit.replace("@", "@bank"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # Elsewhere on the machine there may be units with mistakes of their own.
    mine = [line for line in done.stderr.splitlines() if "colonnade" in line]
    assert not mine, mine


def test_the_bill_names_what_the_members_need() -> None:
    bill = runpy.run_path(str(DEPLOY / "sbom.py"))["bill"]()
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    names = {part["name"] for part in bill["components"]}
    assert {"numpy", "cryptography", "nvflare", "dp-accounting"} <= names
    refs = {part["bom-ref"] for part in bill["components"]}
    assert all({line["ref"], *line["dependsOn"]} <= refs for line in bill["dependencies"])
