"""`colonnade attack` and `colonnade audit`: what observers can be shown to learn, beside what is proved."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.cli.screen import PARTY_FILES, Answer, argument, check_least, flag, option, progress
from colonnade.errors import InputError, ModelError, PlanError, PrivacyError
from colonnade.federation.files import FACTS, sealed_text
from colonnade.runs.drafts import new_folder, uninterrupted, write_named
from colonnade.runs.reading import RUNS, RunFolder, find_run, is_run, page_of, readable, with_facts

if TYPE_CHECKING:
    from colonnade.lab.targets import AuditTarget
    from colonnade.report.record import AuditRecord


ATTACKS = Path("attacks")


def attack(
    job: Path = argument("JOB", "The job file (TOML): parties and delta."),
    people: int = option("--people -n N", "How many people take part in encrypted runs.", 200),
    epochs: int = option("--epochs N", "How often everybody is used.", 3),
    batch: int | None = option(
        "--batch N", "Records in a batch; as many as the attacker has columns if left out."
    ),
    learning_rate: float = option("--learning-rate η", "The step size.", 0.01),
    epsilon: float | None = option("--epsilon ε", "The ε of the defence; the job's if left out."),
    key_bits: int = option("--key-bits N", "The length of the keys: 2048 or 3072.", 2048),
    party: list[Path] = PARTY_FILES,
    output: Path | None = option(
        "--output -o FOLDER", "A new folder for facts and picture; attacks/NAME-OF-JOB if left out."
    ),
) -> Answer:
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
    from colonnade.lab.campaign import Campaign
    from colonnade.lab.people import check_public, public_tables
    from colonnade.methods.encrypted.plan import EncryptedOptions
    from colonnade.protocols.plans import TrainingSpec, default_delta
    from colonnade.report.lab import attack_text, draw_attacks
    from colonnade.report.record import AttackRecord

    check_least("--people", people, 2)
    check_least("--batch", batch, 1)
    agreed = Job.load(job)
    files = party_files(agreed, party)
    check_public(
        files, "an attack shows other parties' rows and runs only on", "Attack a data set that is public."
    )
    with (
        new_folder(output or ATTACKS / agreed.path.stem, numbered=output is None) as folder,
        progress() as advance,
    ):
        if agreed.task != "classification":
            raise PlanError(
                f"{agreed.path}, task: found {agreed.task!r}; the attacks are on classification of two classes."
            )
        tables = public_tables(agreed, files, advance)
        rows = min(table.rows for table in tables.values())
        options = EncryptedOptions.model_construct(
            epochs=epochs, batch=batch, learning_rate=learning_rate, key_bits=key_bits
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
        record = AttackRecord(
            name=agreed.name,
            people=rows,
            epsilon=request.epsilon,
            delta=request.delta or 0.0,
            findings=findings,
        )
        with uninterrupted():
            (folder.draft / FACTS).write_text(sealed_text(record.to_data()), encoding="utf-8")
            (folder.draft / "attacks.txt").write_text(attack_text(record) + "\n", encoding="utf-8")
            drawn = draw_attacks(folder.draft / "attacks.svg", record)
            finished = folder.finish()
    picture = str(finished / "attacks.svg") if drawn else None
    return Answer(
        {**record.to_data(), "picture": picture},
        lambda wide: f"{attack_text(record, width=wide)}\n\nPicture: {picture}",
    )


AUDITS = Path("audits")
AUDIT = "audit.json"
PAPERS = "papers"
MOST_PEOPLE = 200


def audit(
    what: Path = argument("RUN|JOB", "The folder of a run, or a job file (TOML); or the word papers."),
    runs: int | None = option(
        "--runs -n N", "Sessions for each experiment; left out, about a minute in all."
    ),
    draws: int = option(
        "--draws N",
        "Besides sessions, so many draws of the plan's own noise, for methods that open a sum.",
        0,
    ),
    public: bool = flag(
        "--public", "Put the canaries among the parties' own people, if all are declared public."
    ),
    party: list[Path] = PARTY_FILES,
    output: Path | None = option(
        "--output -o FOLDER",
        "A new folder for facts and picture; audits/NAME-OF-JOB if left out. Not for a run.",
    ),
) -> Answer:
    """Audit ε: run a method's protocol on synthetic people and show how much of its proved ε observers can use.

    No row of the parties' data is read, and nothing is charged: the method's own protocol runs, again and again, on
    people made up from the declared columns, with ledgers that end with the audit. Each observer guesses from what it
    really saw which of two neighbouring data sets it was, or which of many canaries were in. With --public the other
    people of the data set are the parties' own, if every party's file says public = true.

    Of a run, the audit is of the plan that the run had; it is kept in the run's folder, and report.html shows it.

    `colonnade audit papers` puts the papers' formulas that have noise on trial instead, and says which are caught.

    Example (`colonnade demo` writes such files):
      colonnade audit demo-run/job.toml --runs 100
    """
    from colonnade.report.lab import DEFECT, audit_drawing, audit_text

    if runs is not None and runs < 8:
        raise InputError(
            f"--runs: found {runs}; it must be at least 8, so that both halves hold both data sets."
        )
    if draws < 0:
        raise InputError(f"--draws: found {draws}; it must not be negative.")
    papers = str(what) == PAPERS
    run = None if papers else _run(what)
    if (papers or run is not None) and (output is not None or public or party):
        instead = (
            "papers have none of their own" if papers else "the audit of a run is kept in its own folder"
        )
        raise InputError(f"--output, --public and --party are for a job; {instead}.")
    if papers:
        return _audit_papers()
    if run is not None:
        name = str(run.facts.get("name", run.path.name))
        record = _audited(_subject_of_run(run), name, runs, draws, "people made up")
        with uninterrupted():
            write_named(run.path / "audit.svg", audit_drawing(record.findings))
            write_named(run.path / AUDIT, sealed_text(record.to_data()))
            write_named(run.path / "report.html", page_of(run))
        picture = str(run.path / "audit.svg")
    else:
        record, picture = _audit_job(what, party, output, runs, draws, public=public)
    return Answer(
        {**record.to_data(), "picture": picture},
        lambda wide: f"{audit_text(record, width=wide)}\n\nPicture: {picture}",
        PrivacyError(DEFECT) if record.defect else None,
    )


def _audit_papers() -> Answer:
    from colonnade.lab.papers import variants
    from colonnade.randomness import SystemRandomness
    from colonnade.report.lab import papers_text

    formulas, tried = [], variants()
    with progress() as advance:
        for number, variant in enumerate(tried):
            drawn, claim = variant.drawn, variant.drawn.claim
            lower = drawn.bound(variant.draws, SystemRandomness()).epsilon
            formula: dict[str, Any] = {"paper": variant.paper, "claim": variant.claim, "why": variant.why}
            formula |= {"epsilon": claim.epsilon, "delta": claim.delta, "statistic": drawn.what}
            formula |= {"draws": variant.draws, "lower": lower, "caught": lower > claim.epsilon}
            formulas.append(formula)
            advance("formulas", number + 1, len(tried))
    return Answer({"formulas": formulas}, lambda wide: papers_text(formulas, width=wide))


def _run(what: Path) -> RunFolder | None:
    if what.suffix == ".toml" or (what.is_file() and what.suffix != ".json"):
        return None
    if is_run(what) or is_run(RUNS / what) or what.suffix == ".json":
        return with_facts(find_run(what))
    raise InputError(
        f"{what} is neither a run nor a job file. Name the folder of a run (`colonnade runs` lists them), or a file "
        "that ends in .toml."
    )


def _audit_job(
    path: Path, given: list[Path], output: Path | None, runs: int | None, draws: int, *, public: bool
) -> tuple[AuditRecord, str]:
    from colonnade.data.schema import Schema
    from colonnade.federation.job import Job
    from colonnade.federation.party_file import party_files
    from colonnade.lab.people import check_public, public_tables
    from colonnade.lab.targets import AuditTarget
    from colonnade.report.lab import audit_drawing, audit_text

    job = Job.load(path)
    files = party_files(job, given)
    if public:
        instead = "Leave --public out: people made up from the declared columns show as much."
        check_public(files, "--public takes people of", instead)
    with new_folder(output or AUDITS / job.path.stem, numbered=output is None) as folder:
        tables = public_tables(job, files) if public else {}
        rest = {owner: next(table.blocks(MOST_PEOPLE)) for owner, table in tables.items()} or None
        who = "people declared public" if public else "people made up"
        schemas = tuple(Schema.load(file.schema).public(party) for party, file in files.items())
        holders = [schema.party for schema in schemas if schema.label is not None]
        group = job.model_copy(update={"active": holders[0] if holders else None}).group()
        target = AuditTarget(job.method, job.spec, group, schemas, rest)
        record = _audited(target, job.name, runs, draws, who)
        with uninterrupted():
            (folder.draft / FACTS).write_text(sealed_text(record.to_data()), encoding="utf-8")
            (folder.draft / "audit.txt").write_text(audit_text(record) + "\n", encoding="utf-8")
            (folder.draft / "audit.svg").write_text(audit_drawing(record.findings), encoding="utf-8")
            finished = folder.finish()
    return record, str(finished / "audit.svg")


def _subject_of_run(run: RunFolder) -> AuditTarget:
    from colonnade.data.schema import PublicSchema
    from colonnade.lab.targets import AuditTarget
    from colonnade.methods.table import METHODS, checked_options
    from colonnade.protocols.plans import TrainingSpec
    from colonnade.runtime.party import Group

    if run.failed:
        raise InputError(f"{run.path} failed half way. Audit its job file instead.")
    with readable(run):
        record, requested, plan = run.run, run.run.requested, run.run.plan
        if requested is None:
            raise ModelError(f"{run.path} does not say what was asked for. Audit its job file instead.")
        method = METHODS[requested.method]
        group = Group(
            tuple(requested.parties),
            server=requested.server,
            computing_parties=tuple(requested.computing_parties),
            threshold=requested.threshold,
            active=requested.active,
            disclosed_noise=requested.disclosed_noise,
        )
        schemas = tuple(PublicSchema.from_data(plan["schemas"][party]) for party in group.owners)
        delta = record.guarantees[0].delta if record.guarantees else plan["delta"]
        options = checked_options(method, requested.options)
        terms: dict[str, Any] = {name: getattr(requested, name) for name in ("task", "epsilon", "gamma")}
        request = TrainingSpec(**terms, delta=delta, accepted_delta=delta, options=options)
    return AuditTarget(method.name, request, group, schemas)


def _audited(subject: AuditTarget, name: str, runs: int | None, draws: int, people: str) -> AuditRecord:
    from colonnade.lab.experiments import audit as carry_out
    from colonnade.lab.targets import target_of
    from colonnade.report.record import AuditRecord

    began = time.monotonic()
    target = target_of(subject)
    sessions = target.runs if runs is None else runs
    with progress() as advance:
        findings = carry_out(target, runs=sessions, draws=draws, progress=advance)
    return AuditRecord(
        name=name,
        method=subject.method,
        people=people,
        runs=sessions,
        draws=draws,
        sessions=sessions * len(target.experiments),
        seconds=time.monotonic() - began,
        confidence=0.95,
        notes=list(target.notes),
        findings=list(findings),
        defect=any(each.exceeded and each.proved for each in findings),
    )
