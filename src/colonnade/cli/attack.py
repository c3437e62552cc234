"""`colonnade attack`: published attacks on encrypted gradients, on one's own data, with and without a defence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from colonnade.cli.options import AS_JSON, PARTY_FILES
from colonnade.cli.screen import progress, say, say_json, width
from colonnade.errors import InputError, PlanError
from colonnade.federation.records import json_text
from colonnade.runs.folders import new_folder, uninterrupted

ATTACKS = Path("attacks")


def attack(
    job: Path = typer.Argument(..., metavar="JOB", help="The job file (TOML): parties and delta."),
    people: int = typer.Option(
        200, "--people", "-n", metavar="N", help="How many people take part in encrypted runs."
    ),
    epochs: int = typer.Option(3, "--epochs", metavar="N", help="How often everybody is used."),
    batch: int | None = typer.Option(
        None,
        "--batch",
        metavar="N",
        help="Records in a batch; as many as the attacker has columns if left out.",
    ),
    learning_rate: float = typer.Option(0.01, "--learning-rate", metavar="η", help="The step size."),
    approximation: str = typer.Option(
        "taylor", "--approximation", help="taylor, minimax or piecewise; a defence there is for taylor only."
    ),
    initialisation: str = typer.Option("zero", "--initialisation", help="zero, xavier, kaiming or large."),
    epsilon: float | None = typer.Option(
        None, "--epsilon", metavar="ε", help="The ε of the defence; the job's if left out."
    ),
    key_bits: int = typer.Option(
        2048, "--key-bits", metavar="N", help="The length of the keys: 2048 or 3072."
    ),
    party: list[Path] = PARTY_FILES,
    output: Path | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="FOLDER",
        help="A new folder for facts and picture; attacks/NAME-OF-JOB if left out.",
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Attack encrypted gradients on data declared public: what an undefended protocol shows, and what noise leaves.

    Every party's file must say public = true: the attacks see everybody's rows, to score themselves. Nothing is
    charged.

    The parties of the job train a logistic regression under Paillier encryption, each message recorded, first as such
    protocols are deployed and then with noise on every message before encryption; and once more as in frameworks where
    an arbiter decrypts the gradients. Labels are read from the signs of coefficients (criterion 4.2 of "Is Vertical
    Logistic Regression Privacy-Preserving?"), by solving for them, by packing questions and by averaging; features from
    how scores move. docs/attacks.md says what each attack needs.

    Example (`colonnade demo` writes such files):

      colonnade attack demo-run/job.toml --people 200 --epsilon 0.5
    """
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import party_files
    from colonnade.lab.campaign import Campaign, attack_facts
    from colonnade.lab.people import check_public, public_tables
    from colonnade.methods.encrypted.plan import EncryptedOptions
    from colonnade.protocols.plans import default_delta
    from colonnade.protocols.specs import TrainingSpec
    from colonnade.report.attacks import attack_text, draw_attacks

    if people < 2:
        raise InputError(f"--people: found {people}; it must be at least 2.")
    if batch is not None and batch < 1:
        raise InputError(f"--batch: found {batch}; it must be at least 1.")
    agreed = Job.load(job)
    files = party_files(agreed, party)
    check_public(
        files, "an attack shows other parties' rows and runs only on", "Attack a data set that is public."
    )
    with (
        new_folder(output or ATTACKS / agreed.path.stem, numbered=output is None) as folder,
        progress(not as_json) as advance,
    ):
        if agreed.task != "classification":
            raise PlanError(
                f"{agreed.path}, task: found {agreed.task!r}; the attacks are on classification of two classes."
            )
        tables = public_tables(agreed, files, advance)
        rows = min(table.rows for table in tables.values())
        options = EncryptedOptions.model_construct(
            approximation=_chosen("--approximation", approximation, ("taylor", "minimax", "piecewise")),
            initialisation=_chosen(
                "--initialisation", initialisation, ("zero", "xavier", "kaiming", "large")
            ),
            epochs=epochs,
            batch=batch,
            learning_rate=learning_rate,
            key_bits=key_bits,
        )
        request = TrainingSpec(
            "classification",
            agreed.epsilon if epsilon is None else epsilon,
            delta=agreed.delta or default_delta(rows),
            accepted_delta=agreed.accepted_delta,
            options=options,
            public=agreed.parties,
            alignment="equal",
        )
        findings = list(Campaign(tables, request, min(people, rows), advance).findings())
        facts = attack_facts(
            findings, name=agreed.name, people=rows, epsilon=request.epsilon, delta=request.delta or 0.0
        )
        with uninterrupted():
            text = json_text(facts)
            (folder.draft / "facts.json").write_text(text, encoding="utf-8")
            (folder.draft / "attacks.txt").write_text(attack_text(facts) + "\n", encoding="utf-8")
            drawn = draw_attacks(folder.draft / "attacks.svg", facts)
            finished = folder.finish()
    facts["picture"] = str(finished / "attacks.svg") if drawn else None
    if as_json:
        say_json(facts)
        return
    say(f"{attack_text(facts, width=width())}\n\nPicture: {facts['picture']}")


def _chosen(option: str, found: str, choices: tuple[str, ...]) -> Any:
    from colonnade.data.declaring import nearest_name

    if found not in choices:
        raise InputError(
            f"{option}: found {found!r}; it must be one of {', '.join(choices)}.{nearest(found, choices)}"
        )
    return found
