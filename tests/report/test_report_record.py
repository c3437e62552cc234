"""The record of a run has one form: its types, the JSON Schema that is published, and what is written agree."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from report_runs import private_run, seeded_run

import colonnade.report.record
from colonnade.federation.files import plain, sealed_text
from colonnade.report.record import RunRecord

SCHEMA = Path(colonnade.report.record.__file__).with_name("facts.schema.json")


def test_the_schema_that_is_published_is_that_of_the_record() -> None:
    published = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert published == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **RunRecord.model_json_schema(),
    }
    assert {"run", "guarantees", "learnt", "ledgers"} <= set(published["required"])


@pytest.mark.parametrize("make", [private_run, seeded_run])
def test_facts_are_a_record_and_nothing_else(make: Any) -> None:
    facts = json.loads(sealed_text(make()[0]))
    assert RunRecord.model_validate(facts, strict=True).to_data() == facts


@pytest.mark.parametrize("key", ["run", "guarantees", "ledgers", "learnt"])
def test_facts_without_what_every_run_has_are_no_record(key: str) -> None:
    facts = plain(private_run()[0])
    with pytest.raises(ValidationError):
        RunRecord.model_validate({name: value for name, value in facts.items() if name != key})
    with pytest.raises(ValidationError):
        RunRecord.model_validate({**facts, key: 3})
