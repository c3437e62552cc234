"""Queries read and never write, read nothing but what is named, and take no rows together unacknowledged."""

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from colonnade.data import arrays as relation
from colonnade.data.encoder import Encoder, Quantizer
from colonnade.data.queries import KINDS, Catalogue, aggregates, grouped, statement
from colonnade.data.schema import Schema
from colonnade.data.sources import DuckDBSource, PostgreSQLSource, Source, SQLiteSource
from colonnade.data.table import Table
from colonnade.errors import DataError, QueryRefused

SCHEMA = Schema.parse('id = "customer"\ncolumns.age = {kind = "numeric", low = 0, high = 99}')
MAKE = "CREATE TABLE customers (customer INTEGER, age INTEGER)"
FILL = "INSERT INTO customers VALUES " + ", ".join(f"({number}, {number % 90})" for number in range(300))
VISITS = "CREATE TABLE visits AS SELECT customer AS visitor, age AS spent FROM customers"
PRICES = "CREATE TABLE prices AS SELECT customer AS n, age AS x FROM customers"
VIEW = "CREATE VIEW plain_view AS SELECT customer, age + 1 AS age FROM customers WHERE age > 5"
PLAIN = "select customer, age from customers"
PLACES = itertools.count()


class Databases:
    """The same table in each kind of database; `define` is run in it by somebody who may write."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        # Nobody but these tests: PostgreSQL refuses to drop what is being read.
        self.place = f"queries_{next(PLACES)}"
        self.address = f"{address}?options=-csearch_path%3D{self.place}"
        self.duckdb, self.sqlite = folder / "a.duckdb", folder / "a.db"
        self.write(f"CREATE SCHEMA {self.place}", only="postgresql")
        self.write(MAKE, FILL, VISITS, PRICES, VIEW)

    def write(self, *texts: str, only: str = "") -> None:
        """Statements in one connection to each kind of database, or to one of them."""
        import psycopg

        connected: dict[str, Any] = {
            "duckdb": lambda: duckdb.connect(self.duckdb),
            "sqlite": lambda: sqlite3.connect(self.sqlite),
            "postgresql": lambda: psycopg.connect(self.address, password="only-for-this-server"),
        }
        for kind in [only] if only else connected:
            with connected[kind]() as database:
                for text in texts:
                    database.execute(text)

    def sources(self, sql: str, combines_rows: tuple[str, ...] = ()) -> dict[str, Source]:
        return {
            "duckdb": DuckDBSource(sql, self.duckdb, combines_rows),
            "sqlite": SQLiteSource(sql, self.sqlite, combines_rows),
            "postgresql": PostgreSQLSource(sql, self.address, "TEST_DB_PASSWORD", combines_rows),
        }


@pytest.fixture
def databases(tmp_path: Path, postgresql: str) -> Databases:
    return Databases(tmp_path, postgresql)


def rows(source: Source) -> int:
    return Table("bank", source, SCHEMA).check().rows


def refused(source: Source, part: str) -> None:
    with pytest.raises(DataError, match=part) as raised:
        Table("bank", source, SCHEMA).check()
    assert "party 'bank', query on" in str(raised.value)


STACKED = (
    "{plain}; {write}; {plain}",
    "{plain}) as x; {write}; select * from ({plain}",
    "select 1; {write}",
    "{write}",
)


def test_no_text_makes_a_duckdb_source_write_a_file(databases: Databases) -> None:
    target = databases.folder / "stolen.csv"
    for shape in STACKED:
        sql = shape.format(plain=PLAIN, write=f"copy customers to '{target}'")
        refused(DuckDBSource(sql, databases.duckdb), "statements|not a SELECT|cannot be run")
        assert not target.exists()
    with pytest.raises(QueryRefused, match=r"the query is 2 statements. Write one SELECT."):
        Table("bank", DuckDBSource(f"{PLAIN}; select 1", databases.duckdb), SCHEMA)


def test_no_text_makes_a_postgresql_source_leave_its_transaction_and_write(databases: Databases) -> None:
    for shape, write in itertools.product(
        STACKED, ("delete from customers", "commit; delete from customers", "rollback; drop table customers")
    ):
        sql = shape.format(plain=PLAIN, write=write)
        # Acknowledged as unparsed, so that it is the session itself that holds.
        for acknowledged in ((), KINDS):
            with pytest.raises(DataError):
                Table("bank", databases.sources(sql, acknowledged)["postgresql"], SCHEMA).check()
    assert rows(databases.sources(PLAIN)["postgresql"]) == 300


def test_a_postgresql_session_is_for_reading_from_its_first_statement_to_its_last(
    databases: Databases,
) -> None:
    databases.write(
        "CREATE FUNCTION writes() RETURNS integer LANGUAGE sql AS 'DELETE FROM customers; SELECT 1'",
        only="postgresql",
    )
    for sql in (
        "select customer, writes() as age from customers",
        "select customer, age from customers where set_config('transaction_read_only', 'off', true) = 'off'",
    ):
        refused(databases.sources(sql, KINDS)["postgresql"], "the query failed while|cannot be run")
    # What a later transaction of the session would be is the session's affair too.
    leaving = "select customer, age from customers where set_config('default_transaction_read_only', 'off', false) > ''"
    table = Table("bank", databases.sources(leaving)["postgresql"], SCHEMA)
    assert table.rows == 300
    assert rows(databases.sources(PLAIN)["postgresql"]) == 300


def test_a_duckdb_source_reads_its_own_file_and_neither_another_nor_a_variable(databases: Databases) -> None:
    other = databases.folder / "other.csv"
    other.write_text("customer,age\n1,2\n")
    with duckdb.connect(databases.folder / "other.duckdb") as another:
        another.execute(MAKE)
    for sql in (
        f"select * from '{other}'",
        f"select * from read_csv('{other}')",
        f"select customer, (select content from read_text('{other}')) as age from customers",
        "select customer, age from customers, glob('/*')",
        f"select * from read_duckdb('{databases.folder / 'other.duckdb'}')",
        "select * from sql_of_this_process",
    ):
        refused(DuckDBSource(sql, databases.duckdb, KINDS), "reaches for another file|cannot be run")
    assert rows(DuckDBSource(PLAIN, databases.duckdb)) == 300
    refused(DuckDBSource(PLAIN, databases.folder), "it is a directory; a database file was expected")
    import pyarrow as pa

    strangers = pa.table({"customer": [1], "age": [2]})
    refused(DuckDBSource("select * from strangers", databases.duckdb), "cannot be run: .*strangers")
    assert strangers.num_rows == 1


@pytest.mark.slow
def test_a_sort_larger_than_memory_still_finds_room_beside_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.duckdb"
    with duckdb.connect(path) as database:
        database.execute(
            "CREATE TABLE customers AS SELECT md5(range::varchar) AS customer, 7 AS age FROM range(400000)"
        )
    monkeypatch.setitem(relation._CONFINED, "memory_limit", "20MB")
    monkeypatch.setitem(relation._CONFINED, "threads", 1)
    spilled, rows = False, 0
    for block in Table("bank", DuckDBSource(PLAIN, path), SCHEMA).blocks():
        spilled = spilled or any((tmp_path / "a.duckdb.tmp").glob("*"))
        rows += block.rows
    assert rows == 400_000 and spilled


TOGETHER = {
    "window": [
        "select customer, avg(age) over () as age from customers",
        "select customer, age from customers order by row_number() over (order by age)",
    ],
    "aggregate": [
        "with m as (select count(*) as n from visits) select customer, n as age from customers, m",
        "select customer, max(age) as age from customers group by customer",
    ],
    "self-join": [
        "select a.customer, abs(a.age - b.age) as age from customers a, customers b where b.customer = 7",
        "select a.customer, b.age from customers a join customers b on b.customer = a.customer - a.customer",
        "select c.customer, d.age from CUSTOMERS c join customers d on c.customer = d.customer",
        "with one as (select * from customers) select a.customer, b.age from one a, one b where b.age = 3",
        "with one as (select * from customers) select a.customer, a.age from one, customers a where one.age = 3",
        "select customer, age from plain_view union all select customer + 1000, age from customers",
        "select c.customer, v.age from customers c join plain_view v on v.customer = 7",
        "select a.customer, (select b.age from customers b where b.customer = a.customer) as age from customers a",
        "with recursive r as (select customer, age from customers where customer = 7"
        " union all select customer + 1, age from r where customer < 50) select customer, age from r",
    ],
    "subquery": [
        "select customer, age - (select spent from visits where visitor = 0) as age from customers",
        "select customer, age from customers where age >= (select spent from visits v where v.visitor = 0)",
        "select customer, age from customers where exists (select 1 from visits where spent = 3)",
        "select customer, age from customers where age in (select spent from visits)",
        "with best as (select spent from visits where visitor = 0)"
        " select customer, (select spent from best) as age from customers",
        # Tied to the row in no way that keeps other people's rows out.
        "select customer, (select spent from visits where visitor = customer) as age from customers",
        "select customer, (select v.spent from visits v where v.visitor = c.customer - c.customer) as age"
        " from customers c",
        "select customer, (select v.spent from visits v where v.visitor = 3 and c.age = c.age) as age from customers c",
        "select customer, age from customers c"
        " where exists (select 1 from visits v where v.visitor = c.customer or v.spent = 1)",
        # One of its tables is tied, and a row of another moves everybody.
        "select customer, (select x from visits v, prices where v.visitor = c.customer and n = 0) age from customers c",
        "select c.customer, (select p.x from prices p join (values (1, 0)) k(one, two) on k.one = c.customer"
        " and p.n = k.two) as age from customers c",
        "select c.customer, w.x as age from customers c, lateral (select p.x from prices p where p.n = 0) w",
        "select c.customer, (select w.x from (select visitor, x from visits, prices where n = 0) w"
        " where w.visitor = c.customer) as age from customers c",
    ],
    "limit": [
        "select customer, age from customers order by age desc limit 100",
        "select * from (select customer, age from customers limit 10 offset 3) as x",
    ],
}


def test_what_takes_rows_together_is_refused_by_name_unless_the_party_acknowledges_it(
    databases: Databases,
) -> None:
    looked_at = set()
    for kind, sql in ((kind, sql) for kind, texts in TOGETHER.items() for sql in texts):
        others = tuple(other for other in KINDS if other != kind)
        for name, source in databases.sources(sql).items():
            # One parser reads the texts for all databases: the others are asked once of each kind.
            if name != "duckdb" and (kind, name) in looked_at:
                continue
            refused(source, rf'takes rows together: .*\({kind}\).*combines_rows = \["{kind}"\]')
            acknowledged = databases.sources(sql, (kind,))[name]
            assert Table("bank", acknowledged, SCHEMA).rows > 0, sql
            if (kind, name) not in looked_at:
                looked_at.add((kind, name))
                refused(databases.sources(sql, others)[name], rf"\({kind}\)")


def test_views_and_macros_are_looked_into(databases: Databases) -> None:
    databases.write("CREATE VIEW inner_view AS SELECT customer, avg(age) OVER () AS age FROM customers")
    databases.write("CREATE VIEW Adults (customer, age) AS SELECT customer, age FROM inner_view")
    databases.write(
        "CREATE MACRO typical(x) AS avg(x)",
        "CREATE MACRO some_of(n) AS TABLE SELECT * FROM customers LIMIT n",
        "CREATE MACRO first_spent() AS (SELECT spent FROM visits WHERE visitor = 0)",
        "CREATE MACRO visited() AS TABLE SELECT visitor, spent FROM visits",
        only="duckdb",
    )
    databases.write(
        "CREATE FUNCTION typical() RETURNS numeric LANGUAGE sql AS 'SELECT avg(age) FROM customers'",
        only="postgresql",
    )
    for source in databases.sources("select customer, age from ADULTS").values():
        refused(source, r"avg\(\) OVER in 'inner_view' \(window\)")
    typical = "select customer, (select typical(spent) from visits) as age from customers"
    refused(DuckDBSource(typical, databases.duckdb), r"avg\(\) in 'typical\(\)' \(aggregate\)")
    refused(DuckDBSource("select * from some_of(9)", databases.duckdb), r"LIMIT in 'some_of\(\)' \(limit\)")
    reading = "select customer, first_spent() as age from customers"
    of_its_own = r"first_spent\(\), which reads a table of its own \(subquery\)"
    refused(DuckDBSource(reading, databases.duckdb), of_its_own)
    twice = "select a.visitor as customer, b.spent as age from visited() a, visits b"
    refused(DuckDBSource(twice, databases.duckdb), r"table 'visits', which is read twice \(self-join\)")
    hidden = "select customer, typical() as age from customers"
    refused(
        databases.sources(hidden)["postgresql"], r"typical\(\), whose text is not known here \(unparsed\)"
    )


def test_a_text_that_only_its_database_knows_is_acknowledged_or_refused_and_names_are_its_own(
    databases: Databases,
) -> None:
    for name, sql in (
        ("sqlite", "select customer, age from customers not indexed"),
        ("postgresql", "select customer, age from only customers"),
    ):
        refused(databases.sources(sql)[name], r'\(unparsed\).*combines_rows = \["unparsed"\]')
        assert rows(databases.sources(sql, ("unparsed",))[name]) == 300
    databases.write("CREATE TABLE attributes AS SELECT customer, age FROM customers", only="postgresql")
    assert rows(databases.sources("select customer, age from attributes")["postgresql"]) == 300


def test_rows_computed_one_by_one_need_no_word(databases: Databases) -> None:
    for sql in (
        "select customer, coalesce(age, 0) as age from customers where age between 3 and 50 order by age",
        "select distinct customer, case when age > 9 then 1 else 0 end as age from customers",
        "select c.customer, v.spent as age from customers c join visits v on c.customer = v.visitor",
        "select c.customer, (select v.spent from visits v where v.visitor = c.customer and v.spent > 1) as age"
        " from customers c where c.age > 20",
        "select c.customer, c.age from customers c where not exists"
        " (select 1 from visits v where c.customer = v.visitor and v.spent = 7)",
        "select customer, age from plain_view union all select visitor + 1000, spent from visits",
        "select customer, (select x from visits v join prices p on v.visitor = p.n where p.n = c.customer) as age"
        " from customers c",
        "select c.customer, w.spent age from customers c left join (select * from visits) w on w.visitor = c.customer"
        " where exists (select 1 from (select * from prices) p where p.n = c.customer)",
        "select customer, age + (select 1) as age from customers",
        "with old as (select * from customers where age > 60) select customer, age from old -- all; of them",
    ):
        for source in databases.sources(sql).values():
            assert rows(source) > 0
    assert rows(SQLiteSource("select customer, max(age, 3) as age from customers", databases.sqlite)) == 300


def test_every_aggregate_of_duckdb_is_known_in_its_own_call() -> None:
    known = Catalogue(aggregates())
    for name in ("sum", "avg", "median", "mode", "stddev", "any_value", "first", "list", "quantile_cont"):
        assert "aggregate" in grouped(statement(f"select {name}(age) from customers"), known), name
    for sql in (
        "select count(*) from c",
        "select f(distinct x) from c",
        "select f(x) filter (where x) from c",
    ):
        assert "aggregate" in grouped(statement(sql), known), sql
    assert "sample" in grouped(statement("select * from c tablesample 10%"), known)
    assert "limit" in grouped(statement("select distinct on (a) a, b from c"), known)
    assert "unparsed" in grouped(statement("select * from query('select 1')"), known)


def test_a_comment_in_a_comment_is_text_that_databases_read_differently(tmp_path: Path) -> None:
    """SQLite ends both at the first end, and would read what is a comment to whoever parses it here."""
    path = tmp_path / "people.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE people (customer INTEGER, age REAL)")
        database.executemany("INSERT INTO people VALUES (?, ?)", [(number, number) for number in range(9)])
        hidden = "SELECT customer, age /* /* */ - (SELECT age FROM people WHERE customer = 7) -- */\n AS age"
        database.execute(f"CREATE VIEW hiding AS {hidden} FROM people")
        database.commit()
    refused(SQLiteSource(f"{hidden} FROM people", path), r"cannot be parsed here \(unparsed\)")
    refused(SQLiteSource("select customer, age from hiding", path), r"'hiding', which cannot be parsed here")
    assert rows(SQLiteSource("select customer, /* one */ age /* two */ from people", path)) == 9


def test_tables_are_counted_by_schema_cte_and_view() -> None:
    known = Catalogue(aggregates())
    two = "select a.n from core.people a join archive.people b on a.n = b.n"
    assert "self-join" not in grouped(statement(two), known)
    for perhaps_one in ("people", "core.people"):
        sql = f"select a.n from core.people a join {perhaps_one} b on a.n = b.n"
        assert "self-join" in grouped(statement(sql), known), perhaps_one
    known = Catalogue(aggregates(), {"adults": ["select * from people where age > 17"]})
    for sql in (
        "with people as (select * from people where age > 3) select n, age from people",
        "with adults as (select * from adults) select n, age from adults",
    ):
        assert grouped(statement(sql), known) == {}
        twice = sql + ", people as other where other.n = 7"
        assert set(grouped(statement(twice), known)) == {"self-join"}
    texts = {
        "twice": ["select a.n, b.age from adults a join people b on b.n = 7"],
        "compared": ["select n, age - (select spent from visits where visitor = 0) as age from people"],
    }
    known = Catalogue(aggregates(), {**known.texts, **texts})
    assert "'people', which is read twice" in grouped(statement("select n from twice"), known)["self-join"]
    assert "in 'compared'" in grouped(statement("select n from compared"), known)["subquery"]
    texts = {f"v{depth}": [f"select a.n from v{depth - 1} a, v{depth - 1} b"] for depth in range(1, 60)}
    known = Catalogue(aggregates(), {**texts, "v0": ["select 1 as n"]})
    assert grouped(statement("select n from v59"), known) == {}
    assert "self-join" in grouped(statement("select n from v59"), Catalogue(aggregates(), texts))


def test_a_table_of_duckdb_is_the_same_by_whatever_name_it_is_called(databases: Databases) -> None:
    calls = ("customers", "main.customers", "a.customers", '"A".Main."Customers"')
    for one, other in itertools.combinations_with_replacement(calls, 2):
        sql = f"select x.customer, y.age from {one} x, {other} y where y.customer = 7"
        refused(DuckDBSource(sql, databases.duckdb), r"which is read twice \(self-join\)")
    for view in ("plain_view", "main.plain_view", "a.plain_view", "a.main.plain_view"):
        sql = f"select x.customer, y.age from customers x, {view} y where y.customer = 7"
        refused(DuckDBSource(sql, databases.duckdb), r"which is read twice \(self-join\)")


@pytest.mark.parametrize(
    ("kind", "sql", "acknowledged"),
    [
        ("duckdb", "select customer, age from customers using sample 50% (bernoulli)", ("sample",)),
        ("postgresql", "select customer, age from customers tablesample bernoulli (50)", ("sample",)),
        ("sqlite", "select customer, age from customers order by random() limit 30", ("limit",)),
        ("duckdb", "select customer, age from customers order by random() limit 30", ("limit",)),
        ("postgresql", "select customer, age from customers order by random() limit 30", ("limit",)),
        ("duckdb", "select customer, random() * 90 as age from customers", ()),
        ("postgresql", "select customer, random() * 90 as age from customers", ()),
        ("sqlite", "select customer, abs(random() % 90) as age from customers", ()),
        ("duckdb", "select customer, age from customers where random() < 0.5", ()),
    ],
)
def test_rows_that_differ_between_two_readings_are_found_before_anything_is_charged(
    databases: Databases, kind: str, sql: str, acknowledged: tuple[str, ...]
) -> None:
    source = databases.sources(sql, acknowledged)[kind]
    with pytest.raises(QueryRefused, match=r"two readings of the query gave different (rows|values)"):
        Table("bank", source, SCHEMA).check()


def test_one_person_whom_every_row_reads_moves_the_table_far_past_its_bound(tmp_path: Path) -> None:
    """What ε is computed for, and what a window function, a subquery and a self-join make of it."""
    schema = Schema.parse('id = "customer"\ncolumns.age = {kind = "numeric", low = -4, high = 4}')
    own, mixed, other, joined = (
        "select customer, (age - 45) / 20 as age from customers",
        "select customer, (age - avg(age) over ()) / stddev(age) over () as age from customers",
        "select customer, (age - (select age from customers where customer = 300)) / 20 as age from customers",
        "select a.customer, (a.age - b.age) / 20 as age from customers a, customers b where b.customer = 300",
    )
    gamma = 4096

    def moments(path: Path, sql: str) -> np.ndarray:
        source = DuckDBSource(sql, path, ("window", "self-join", "subquery"))
        quantizer = Quantizer(Encoder(schema.columns, "circle"), 1, gamma)
        (block,) = Table("bank", source, schema).check().blocks()
        rows = quantizer.quantize(block)
        return rows.T @ rows

    paths = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    for path, one in zip(paths, (44, 4000), strict=True):
        with duckdb.connect(path) as database:
            database.execute("CREATE TABLE customers (customer INTEGER, age DOUBLE)")
            database.execute("INSERT INTO customers SELECT range, 40 + range % 9 FROM range(1, 300)")
            database.execute(f"INSERT INTO customers VALUES (300, {one})")
    # A row has norm at most γ and a little more for rounding; one person replaced moves the sum by twice its square.
    bound = 2 * (gamma + 1) ** 2
    far = {
        sql: np.linalg.norm(moments(paths[0], sql) - moments(paths[1], sql)) / bound
        for sql in (own, mixed, other, joined)
    }
    assert far[own] <= 1 < 10 < min(far[mixed], far[other], far[joined])
    refused(DuckDBSource(mixed, paths[0]), r"\(window\)")
    refused(DuckDBSource(other, paths[0]), r"\(self-join\).*\(subquery\)")
    refused(DuckDBSource(joined, paths[0]), r"\(self-join\)")
