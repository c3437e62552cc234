"""Schemas: what they say survives every form, and every mistake is pointed at."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typed import untyped

from colonnade.data.documents import Document
from colonnade.data.kinds import Column, NumericColumn
from colonnade.data.labels import ClassLabel, CountLabel, Label, RealLabel
from colonnade.data.levels import BinaryColumn, CategoricalColumn
from colonnade.data.schema import PublicSchema, Schema
from colonnade.errors import SchemaError

GOOD = """id = "customer"

columns.age = {kind = "numeric", low = 17, high = 90}
columns."capital gain" = {kind = "numeric", low = 0, high = 99999, transform = "log1p"}
columns.sex = {kind = "binary", values = ["F", "M"]}
columns.job = {kind = "categorical", categories = ["clerk", "farmer", 7], other = "farmer"}
label = {column = "income", kind = "classes", classes = ["<=50K", ">50K"]}
"""

names = st.text(min_size=1, max_size=8).filter(lambda name: bool(name.strip()))
levels = st.lists(st.text(min_size=1).map(str.strip).filter(bool), min_size=2, max_size=6, unique=True).map(
    tuple
)
bounds = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda b: (b[0], b[0] + b[1]))


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(st.sampled_from(["numeric", "log1p", "binary", "categorical"]))
    if kind == "numeric":
        low, high = draw(bounds)
        encoding = draw(st.sampled_from([None, "circle", "linear", "hats"]))
        return NumericColumn(
            name,
            low,
            high,
            missing=draw(st.sampled_from([None, low, "category"])),
            encoding=untyped(encoding),
        )
    if kind == "log1p":
        return NumericColumn(name, draw(st.floats(-0.9, 10)), draw(st.floats(11, 1e9)), "log1p")
    values = draw(levels)
    if kind == "binary":
        return BinaryColumn(name, (values[0], values[1]))
    return CategoricalColumn(name, values, draw(st.none() | st.sampled_from(values)))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    identity, target, *rest = draw(st.lists(names, min_size=3, max_size=7, unique=True))
    label: Label | None = draw(
        st.none()
        | st.just(RealLabel(target, -1, 5))
        | st.just(CountLabel(target, 0, 9))
        | levels.map(lambda values: ClassLabel(target, values))
    )
    return Schema(identity, tuple(draw(columns(name)) for name in rest), label)


@given(schemas())
def test_a_schema_survives_its_plain_form_and_peers_see_all_but_the_id_column(schema: Schema) -> None:
    text = json.dumps(schema.to_data(), sort_keys=True)
    assert Schema.from_data(json.loads(text)) == schema
    public = schema.public("bank")
    again = PublicSchema.from_data(json.loads(json.dumps(public.to_data(), sort_keys=True)))
    assert again == public
    assert (again.columns, again.label) == (schema.columns, schema.label)
    assert "id" not in public.to_data()


@pytest.mark.parametrize(
    ("declared", "announced"),
    [
        ('encoding = "hat"', "hats"),
        ("knots = 5", 'encoding = "hats"'),
        ('encoding = "hats", knots = 2', "from 3"),
        ("bins = 5", 'encoding = "bins"'),
        ('encoding = "bins", knots = 5', "bins = 5"),
        ('encoding = "hats"\nmap = {kind = "ball", bound = 8}', "as the number it is"),
    ],
)
def test_an_encoding_that_says_two_things_is_refused(declared: str, announced: str) -> None:
    column, _, rest = declared.partition("\n")
    with pytest.raises(SchemaError) as refused:
        Schema.parse(
            f'id = "i"\ncolumns.x = {{kind = "numeric", low = 0, high = 8, {column}}}\n{rest}'
        ).public("bank").encoder("circle")
    assert announced in str(refused.value) and "'x'" in str(refused.value)


def test_columns_keep_their_order_and_numbers_in_categories_are_text() -> None:
    assert [c.name for c in Schema.parse(GOOD).columns] == ["age", "capital gain", "sex", "job"]
    job = Schema.parse(GOOD).columns[3]
    assert isinstance(job, CategoricalColumn)
    assert job.categories == ("clerk", "farmer", "7")
    label_only = 'id = "a"\n[label]\ncolumn = "y"\nkind = "real"\nlow = 0\nhigh = 1'
    assert Schema.parse(label_only).columns == ()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"party": "bank"},
        {"party": "bank", "columns": "age"},
        {"party": "bank", "columns": [{"kind": "numeric", "low": 0, "high": 1}]},
        {"party": "bank", "columns": [{"name": "a", "kind": "numeric", "low": 1, "high": 0}]},
        {"party": "bank", "columns": [{"name": "a", "kind": "numeric", "low": 0, "high": 1}] * 2},
        {"party": "bank", "columns": [{"name": "a", "kind": "numeric", "low": 0, "high": 1}], "more": 1},
    ],
)
def test_a_peer_s_description_is_checked_like_a_file(data: dict[str, object]) -> None:
    with pytest.raises(SchemaError):
        PublicSchema.from_data(data)


def test_a_missing_schema_file_brings_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "bank.toml").write_text(GOOD)
    assert Schema.load(tmp_path / "bank.toml") == Schema.parse(GOOD)
    with pytest.raises(SchemaError, match=r"does not exist. Did you mean 'bank.toml'"):
        Schema.load(tmp_path / "bnak.toml")
    with pytest.raises(SchemaError, match="directory"):
        Schema.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes('id = "é"'.encode("latin-1"))
    with pytest.raises(SchemaError, match="UTF-8"):
        Schema.load(tmp_path / "latin.toml")


def test_a_line_is_found_through_headers_dotted_keys_and_inline_tables_and_bins_of_a_number_are_bins() -> (
    None
):
    text = 'id = "a"\n[columns]\nage = {kind = "numeric", low = 1}\n[columns."x.y"]\nlow = 2\n'
    document = Document.parse(text, "f.toml")
    assert document.line(("columns", "age", "low")) == 3
    assert document.line(("columns", "x.y", "low")) == 5
    assert document.line(("nothing",)) is None
    column = 'id = "i"\ncolumns.x = {%s, low = 0, high = 8, bins = 4, missing = "category"}'
    number, bins = 'kind = "numeric", encoding = "bins"', 'kind = "bins", ordered = true'
    assert Schema.parse(column % number) == Schema.parse(column % bins)


def test_the_schema_on_the_page_about_schemas_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")
    (text,) = (
        fence for fence in re.findall(r"```toml[^\n]*\n(.*?)```", page, re.DOTALL) if "[columns." in fence
    )
    kinds = [column.to_data()["kind"] for column in Schema.parse(text).columns]
    assert set(kinds) == {"numeric", "date", "bins", "binary", "categorical"}
