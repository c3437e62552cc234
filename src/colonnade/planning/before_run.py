"""A forecast of one job, made right before it is run, so that plan and outcome can stand beside each other."""

from __future__ import annotations

from colonnade.errors import ColonnadeError
from colonnade.federation.federation import Federation, check_budgets
from colonnade.federation.job import Job
from colonnade.federation.train import protocol_of
from colonnade.planning.alignment_cost import Matching
from colonnade.planning.default import Notify, nobody, schemas_of
from colonnade.planning.forecast import Forecast, forecast
from colonnade.planning.pilot_run import PilotRuns

EFFORT = 0.5


def forecast_before_run(job: Job, federation: Federation, notify: Notify = nobody) -> Forecast | None:
    """What the run of a job will take, from declarations and numbers of rows alone.

    None unless everybody declared the data public: a forecast goes by how many people each party has, and whoever may
    read a report is not to be told. None also where there is nothing to foretell: the method has no protocol, or the
    run will be refused, which it then says itself. `told` hears how many seconds the rest may take.
    """
    if not federation.public:
        return None
    try:
        method = protocol_of(job)
        method.needs()
        tables = federation.tables
        schemas = schemas_of(federation)
        shown = {
            owner: max(tables[owner].rows, federation.shown_ids.get(owner, 0))
            for owner in federation.group.owners
        }
        rows = {table.rows for table in tables.values()}
        if job.alignment == "equal" and len(rows) != 1:
            return None
        most = min(rows if job.alignment == "equal" else shown.values())
        plan = job.spec.plan(federation.group, tuple(schemas.values()), most)
        check_budgets(plan, federation.ledgers, federation.datasets)
        matching = Matching(federation.group, schemas, job.alignment, plan.rows, shown)
        pilot_runs = PilotRuns(schemas, effort=EFFORT, draws=1, tries=1, weighed=False, notify=notify)
        return forecast(
            pilot_runs,
            method,
            job.spec,
            plan,
            matching=matching,
            components=job.components,
        )
    except ColonnadeError:
        return None
