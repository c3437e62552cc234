"""What is asked of a run: one name for one thing, and nothing that is not offered."""

from dataclasses import fields

import pytest
from gradient_tables import tables_of
from pydantic import ValidationError

from colonnade.errors import LabelMismatch
from colonnade.methods.encrypted.plan import EncryptedOptions
from colonnade.methods.margin.plan import MarginOptions
from colonnade.methods.messages.plan import IntermediateOptions
from colonnade.methods.method import Method
from colonnade.methods.slr.plan import SlrOptions
from colonnade.methods.table import METHODS
from colonnade.protocols.plans import Options, TrainingSpec
from colonnade.runtime.party import Group

PROTOCOLS = [name for name, method in METHODS.items() if isinstance(method, Method)]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_option_hides_what_is_asked_of_every_method(name: str) -> None:
    """Parties compare both in one table, in which only γ of a method stands for that of the job."""
    options = METHODS[name].options
    assert issubclass(options, Options)
    assert set(options.model_fields) & {item.name for item in fields(TrainingSpec)} <= {"gamma"}
    spec = TrainingSpec("classification", 1.0, options=options())
    assert set(options.model_fields) <= set(spec.to_data())


def test_options_that_there_are_not_or_no_job_may_ask_for_are_refused() -> None:
    spec = TrainingSpec("classification", 1.0, options=EncryptedOptions())
    with pytest.raises(TypeError, match="EncryptedOptions has no defense"):
        spec.with_options(defense="none")
    with pytest.raises(ValidationError, match="'sound' or 'paper'"):
        IntermediateOptions(calibration="none")


@pytest.mark.parametrize(
    "options", [MarginOptions(), SlrOptions(), EncryptedOptions()], ids=lambda one: one.method
)
def test_a_method_for_classes_takes_no_columns_without_one_whatever_was_asked(options: Options) -> None:
    schemas = tuple(table.public() for table in tables_of(("bank", "insurer"), 60))
    without = tuple(type(schema)(schema.party, schema.columns) for schema in schemas)
    group = Group.of(("bank", "insurer"))
    with pytest.raises(LabelMismatch, match="needs a label"):
        TrainingSpec("pca", 1.0, options=options).plan(group, without, 60)
