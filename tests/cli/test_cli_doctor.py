"""`colonnade doctor` without a kit: what is wrong with an installation or with a job's files, and what to do."""

import importlib.metadata
from pathlib import Path

import numpy as np
import pytest
from cli_project import Cli, Project

from colonnade.cli import doctor
from colonnade.cli.app import run
from colonnade.noise.skellam import SkellamNoise


def findings(cli: Cli, *target: str, code: int = 0) -> dict[str, dict[str, object]]:
    found = cli.facts("doctor", *target, code=code)
    assert found["fine"] is (code == 0)
    return {finding["what"]: finding for finding in found["findings"]}


def test_this_installation_is_in_order(cli: Cli) -> None:
    found = findings(cli)
    looked = "packages networks flare postgres onnx board integers randomness noise"
    assert list(found) == looked.split()
    assert cli("doctor").count("ok  ") == len(found)


def announced(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str | None]) -> None:
    """As if these versions were installed, or not at all."""
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name in installed:
            if installed[name] is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return str(installed[name])
        return real(name)

    monkeypatch.setattr("importlib.metadata.version", version)


def test_packages_that_are_missing_or_too_old_are_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announced(monkeypatch, {"numpy": "1.26.4", "gmpy2": None})
    found = doctor._packages("packages")
    assert not found.fine
    assert "numpy>=2.0 is needed, and 1.26.4 is installed" in found.found
    assert "gmpy2 is not installed" in found.found
    assert found.remedy == "pip install 'numpy>=2.0' 'gmpy2>=2.2'"


@pytest.mark.parametrize(
    ("installed", "fine", "said"),
    [
        ({"torch": None, "safetensors": None}, True, "pip install 'colonnade[networks]'"),
        ({"torch": "1.0"}, False, "torch<3,>=2.13 is needed, and 1.0 is installed"),
        ({"torch": "3.0.1"}, False, "torch<3,>=2.13 is needed, and 3.0.1 is installed"),
        ({"torch": "2.13.0+cpu"}, True, "torch 2.13.0+cpu"),
    ],
)
def test_an_extra_may_be_absent_but_not_of_another_version(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str | None], fine: bool, said: str
) -> None:
    announced(monkeypatch, installed)
    found = doctor._packages("networks")
    assert found.fine is fine and said in found.found


def test_noise_of_the_wrong_size_and_bits_that_repeat_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SkellamNoise.draw
    monkeypatch.setattr(SkellamNoise, "draw", lambda self, shape, draws: right(self, shape, draws) * 11 // 10)
    assert not doctor._noise("noise").fine
    monkeypatch.setattr(SkellamNoise, "draw", lambda self, shape, draws: right(self, shape, draws) + 150)
    assert not doctor._noise("noise").fine
    monkeypatch.setattr(
        "colonnade.randomness.SystemRandomness.words", lambda self, count: np.full(count, 7, dtype=np.uint64)
    )
    assert not doctor._randomness("randomness").fine


def test_whatever_a_broken_package_raises_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(what: str) -> None:
        raise ImportError("libgmp.so.10: cannot open shared object file")

    monkeypatch.setattr(doctor, "_integers", broken)
    (found,) = [one for one in doctor.examine_installation() if not one.fine]
    assert found.what == "integers" and "libgmp" in found.found and "pip install" in found.remedy


def test_the_files_of_a_job_are_looked_over_without_running_anything(project: Project, cli: Cli) -> None:
    before = project.files()
    found = findings(cli, "job.toml")
    parties = [f"{party}{part}" for party in ("bank", "insurer") for part in ("", " data", " ledger")]
    assert list(found) == ["job", *parties]
    assert "400 rows" in str(found["bank data"]["found"]) and "first run" in str(
        found["bank ledger"]["found"]
    )
    assert project.files() == before and not Path("bank.ledger").exists()


def test_a_column_that_looks_standardised_is_told_by_doctor_and_on_its_own_page_and_nowhere_else(
    project: Project, cli: Cli
) -> None:
    lines = [line.split(",") for line in project.path("insurer.csv").read_text().splitlines()]
    claims = np.array([float(line[1]) for line in lines[1:]])
    for line, value in zip(lines[1:], (claims - claims.mean()) / claims.std(), strict=True):
        line[1] = f"{value:.6f}"
    project.path("insurer.csv").write_text("\n".join(map(",".join, lines)) + "\n")
    project.edit("insurer.schema.toml", "low = 0\nhigh = 9", "low = -5\nhigh = 5")
    found = findings(cli, "job.toml")
    assert found["insurer columns"]["doubtful"] and "bank columns" not in found
    assert "LOOK     insurer columns" in cli("doctor job.toml")
    assert run(["train", "job.toml", "--output", "run"]) == 0
    announced = {
        path.relative_to("run").as_posix()
        for path in Path("run").rglob("*")
        if path.is_file() and b"deviation 1 to three digits" in path.read_bytes()
    }
    assert announced == {"parties/insurer.html"}
