"""What is asked of a method in a test, in one line: which words are the job's and which the method's is known here."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from colonnade.data.schema import Schema
from colonnade.data.table import Table
from colonnade.methods.glm.losses import Penalty
from colonnade.protocols.evaluation import EvaluationPlan, EvaluationSpec
from colonnade.protocols.plans import Options, Task, TrainingSpec
from colonnade.runtime.party import Group

_KINDS = {
    "f": "kind = 'numeric', low = -1, high = 1",
    "U": "kind = 'categorical', categories = ['a', 'b', 'c']",
}
_OWN = {item.name for item in fields(TrainingSpec)} - {"options", "gamma"}


def requested(
    options: type[Options], task: Task = "classification", epsilon: float = 1.0, **given: Any
) -> TrainingSpec:
    """A spec with these options, taken as they are: what a form would refuse, a plan refuses too.

    γ is the method's own where it has one.
    """
    own = _OWN | ({"gamma"} - set(options.model_fields))
    spec = {name: value for name, value in given.items() if name in own}
    chosen = {name: value for name, value in given.items() if name not in own}
    if isinstance(penalty := chosen.get("penalty"), Penalty):
        chosen |= penalty_options(penalty)
    if unknown := set(chosen) - set(options.model_fields):
        raise TypeError(f"{options.__name__} has no {unknown}")
    return TrainingSpec(task, epsilon, options=options.model_construct(**chosen), **spec)


def table_of(
    party: str, columns: Mapping[str, Any], label: str = "", labels: Any = None, **how: Any
) -> Table:
    """Numbers from −1 to 1 and letters from a to c; the label y stands in it where one is declared."""
    lines = [f"columns.{name} = {{{_KINDS[values.dtype.kind]}}}" for name, values in columns.items()]
    schema = Schema.parse("\n".join(["id = 'n'", *lines, label]))
    return Table.from_arrays(party, {**columns, **({"y": labels} if label else {})}, schema, **how)


def planned_on(spec: Any, tables: Iterable[Table], rows: int | None = None, **roles: Any) -> Any:
    """The plan of a run between the owners of these tables, the first of whom has the label."""
    owned = list(tables)
    group = Group.of(tuple(table.party for table in owned), **{"active": owned[0].party, **roles})
    schemas = tuple(table.public() for table in owned)
    return spec.plan(group, schemas, owned[0].rows if rows is None else rows)


def penalty_options(penalty: Penalty) -> dict[str, Any]:
    """The options that stand for l1 and l2."""
    if penalty.l1 and penalty.l2:
        return {"penalty": "elastic_net", "strength": penalty.l1, "mix": penalty.l2 / penalty.l1}
    if penalty.l1:
        return {"penalty": "l1", "strength": penalty.l1}
    return {"penalty": "l2" if penalty.l2 else "none", "strength": penalty.l2}


def evaluation_plan(label: str, ranges: tuple[tuple[float, float], ...], rows: int) -> EvaluationPlan:
    """Of a model over a number at each of two owners, the first with this label."""
    text = 'id = "n"\ncolumns.value = {kind = "numeric", low = -1, high = 1}\n'
    schemas = (Schema.parse(f"{text}label = {{{label}}}").public("bank"), Schema.parse(text).public("shop"))
    group = Group.of(("bank", "shop"), active="bank")
    made: EvaluationPlan = EvaluationSpec("5f0c", ranges, 1.0, delta=1e-5).plan(group, schemas, rows)
    return made
