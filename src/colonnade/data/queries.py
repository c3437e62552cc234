"""A party's query as its text says it: one SELECT, and what in it takes several rows together.

ε is computed for tables in which one person's row depends on that person alone. A window function, an aggregate, a
limit, a sample, a table that is read twice or a subquery that is not tied to its row can break that without a trace in
the rows, so a query that has one is refused unless the party's file acknowledges it by name. CTEs, views and macros
are followed to the tables behind them. DuckDB parses; what it cannot parse is acknowledged as such, or refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import duckdb

from colonnade.data.arrays import Engine, first_line, owned, refusal
from colonnade.errors import QueryRefused

Tree = dict[str, Any]
Definitions = Callable[[str], Sequence["SqlText | None"]]
"""What the name of a view or macro stands for; None for a text that cannot be parsed."""
_Path = tuple[str, ...]
_Name = tuple[str, str]
_UNTIED = "a subquery on {!r} that no equality of two columns ties to its row"


class SqlText:
    """A query, or a view's or macro's definition, and the tables behind it; `also_main` is another name of `main`."""

    def __init__(self, tree: Tree, definitions: Definitions, also_main: str = "") -> None:
        self.tree, self._definitions, self._also_main = tree, definitions, also_main
        self._ctes: dict[str, list[Tree]] = {}
        for node in nodes(tree):
            for one in (node.get("cte_map") or {}).get("map", ()):
                self._ctes.setdefault(str(one["key"]).lower(), []).append(one["value"])
        self._known: dict[tuple[str, frozenset[_Name]], Counter[_Path]] = {}

    def reads(self, part: Tree) -> Counter[str]:
        """How often a part of the text reads each table, twice for more; `people` may be the same as `core.people`."""
        paths = self.paths(part)

        def may_be_one(path: _Path, other: _Path) -> bool:
            shorter = min(len(path), len(other))
            return path[-shorter:] == other[-shorter:]

        def times(path: _Path) -> int:
            return min(2, sum(count for other, count in paths.items() if may_be_one(path, other)))

        return Counter({".".join(path): times(path) for path in paths})

    def untied(self) -> Iterator[str]:
        """Subqueries, and macros with a subquery, that read a table and not by a column of the row they stand in."""
        waiting: list[tuple[Any, frozenset[str]]] = [(self.tree, frozenset())]
        while waiting:
            part, outer = waiting.pop()
            if isinstance(part, list):
                waiting += [(one, outer) for one in part]
            if not isinstance(part, dict):
                continue
            if part.get("type") == "SELECT_NODE":
                yield from map(_UNTIED.format, self._loose(part, outer, None))
                outer |= _names(_sources(part["from_table"]))
            elif part.get("type") == "TABLE_FUNCTION":
                part = {"arguments": part.get("function", {}).get("arguments")}
            elif part.get("class") == "SUBQUERY":
                yield from map(_UNTIED.format, self._loose(part["subquery"]["node"], outer))
            elif part.get("class") == "FUNCTION":
                (name,) = names(part)
                if any(inside and inside.reads(inside.tree) for inside in self._definitions(name)):
                    yield f"{name}, which reads a table of its own"
            waiting += [(one, outer) for one in part.values()]

    def _loose(self, query: Tree, outer: frozenset[str], first: int | None = 0) -> Iterator[str]:
        """Tables tied neither to the row nor to so many first ones; with None, of subqueries in FROM beside a table."""
        for part in query.get("children", ()):
            yield from self._loose(part, outer, first)
        if query["type"] not in ("SET_OPERATION_NODE", "SELECT_NODE"):
            yield from sorted(self.reads(query))
        # What reads no table ties nothing: each of its columns may be anything.
        sources = [one for one in _sources(query.get("from_table")) if self.reads(one)]
        begin = sources[:first] if first is not None else [one for one in sources if "subquery" not in one]
        tied = outer - _names(_sources(query.get("from_table"))) | _names(begin or sources[: first is None])
        ties, called = list(_ties(query)), Counter(map(_name_of, sources))
        for _ in sources:
            tied |= {to for one, to in ties if one <= tied and called[to] == 1}
        for source in sources:
            known = _name_of(source) in tied
            if "subquery" in source and not (known and first is None):
                yield from self._loose(source["subquery"]["node"], tied, int(known))
            elif not known:
                yield from sorted(self.reads(source))

    def paths(self, part: Any, above: frozenset[_Name] = frozenset()) -> Counter[_Path]:
        """The same by path; `above` are the names that led here."""
        total: Counter[_Path] = Counter()
        for node in nodes(part, but="cte_map"):
            for name in names(node):
                total += self._behind(name, above)
        return Counter({path: min(2, times) for path, times in total.items()})

    def _behind(self, name: str, above: frozenset[_Name]) -> Counter[_Path]:
        cte, defined = ("cte", name), ("defined", name)
        key = name, above & {cte, defined}
        if key not in self._known:
            if name in self._ctes and cte not in above:
                paths = _most(self.paths(body, above | {cte}) for body in self._ctes[name])
            elif defined not in above and (texts := self._definitions(name)):
                # A definition has CTEs of its own, and sees none of those around its name.
                inside = frozenset(one for one in above if one[0] == "defined") | {defined}
                paths = _most(text.paths(text.tree, inside) for text in texts if text)
            else:
                schema, _, table = name.rpartition(".")
                path = ("main" if schema == self._also_main else schema, table) if schema else (table,)
                paths = Counter() if name.endswith("()") else Counter({path: 1})
            self._known[key] = paths
        return self._known[key]


def names(node: Tree) -> Iterator[str]:
    """What a node names, in lower case: a table, with its schema if that is written, or a function."""
    if isinstance(node.get("table_name"), str):
        parts = (node.get("schema_name") or node.get("catalog_name"), node["table_name"])
        yield ".".join(part for part in parts if part).lower()
    if isinstance(node.get("function_name"), str):
        yield f"{node['function_name'].lower()}()"


def _most(alternatives: Iterable[Counter[_Path]]) -> Counter[_Path]:
    """Where a name may stand for one of several texts, as often as any of them reads a table."""
    most: Counter[_Path] = Counter()
    for one in alternatives:
        most |= one
    return most


def _sources(source: Tree | None, *, joins: bool = False) -> list[Tree]:
    """What a FROM joins, from left to right: tables, subqueries and functions; or its joins."""
    found, waiting = [], [source] if source else []
    while waiting:
        part = waiting.pop()
        waiting += [part["right"], part["left"]] if part["type"] == "JOIN" else []
        found += [part] if (part["type"] == "JOIN") is joins else []
    return found


def _name_of(source: Tree) -> str:
    return str(source.get("alias") or source.get("table_name") or "").lower()


def _names(sources: Iterable[Tree]) -> frozenset[str]:
    return frozenset(map(_name_of, sources)) - {""}


def _ties(select: Tree) -> Iterator[tuple[frozenset[str], str]]:
    """Rows of the first tables choose those of the second: by equal columns written with their tables, or by USING."""
    waiting = [(select.get("where_clause"), _names(_sources(select.get("from_table"))))]
    for join in _sources(select.get("from_table"), joins=True):
        left, right = (_names(_sources(join[side])) for side in ("left", "right"))
        chosen = {"INNER": left | right, "LEFT": right}.get(join["join_type"], frozenset())
        waiting.append((join["condition"], chosen))
        yield from ((left, to) for to in right & chosen if join["using_columns"] and len(right) == 1)
    while waiting:
        condition, chosen = waiting.pop()
        if condition and condition["type"] == "CONJUNCTION_AND":
            waiting += [(part, chosen) for part in condition["children"]]
        elif condition and condition["type"] == "COMPARE_EQUAL":
            one, other = _table_of(condition["left"]), _table_of(condition["right"])
            yield from ((frozenset({by}), to) for by, to in ((one, other), (other, one)) if to in chosen)


def _table_of(expression: Tree) -> str:
    column: list[str] = expression.get("column_names") or []
    return column[-2].lower() if len(column) > 1 else ""


def nodes(part: Any, *, but: str = "") -> Iterator[Tree]:
    """Every node of a tree but those under one key, without recursion: a query may be nested deeper than Python is."""
    waiting = [part]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += [value for key, value in one.items() if key != but]
        elif isinstance(one, list):
            waiting += one


KINDS = ("window", "aggregate", "limit", "sample", "self-join", "subquery", "unparsed")
# PostgreSQL and DuckDB read a comment in a comment, SQLite ends both at the first end: what follows is text to it.
_NESTED_COMMENT = re.compile(r"/\*(?:(?!\*/).)*?/\*", re.DOTALL)
_SELECTS = ("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE")
# They run a text that is made while the query runs.
_RUN_TEXTS = {
    *("query", "query_table", "json_execute_serialized_sql", "dblink", "ts_stat"),
    *(
        f"{what}_to_{form}"
        for what in ("query", "table", "cursor", "schema", "database")
        for form in ("xml", "xmlschema")
    ),
    *(f"{what}_to_xml_and_xmlschema" for what in ("query", "table", "schema", "database")),
}


@dataclass(frozen=True)
class Catalogue:
    """What a database defines that a query may name, in lower case: views as `core.people`, macros as `typical()`."""

    aggregates: Collection[str] = ()
    texts: Mapping[str, Collection[str]] = field(default_factory=dict)
    opaque: Collection[str] = ()
    # SQLite's max(a, b) is no aggregate, though its max(a) is.
    largest_of_row: bool = False
    # What DuckDB lets a query write for the schema `main`: the name of the database.
    also_main: str = ""


class Query(Protocol):
    """A source that is a query; as text it is how messages call it."""

    @property
    def sql(self) -> str: ...

    @property
    def combines_rows(self) -> tuple[str, ...]: ...


class NotParsed(Exception):
    """The text is no SQL that is known here, which need not mean that a database does not know it."""


# It reads nothing but the texts themselves, and to start one takes longer than to parse.
_parser = cache(Engine)


def statement(sql: str) -> Tree:
    """The tree of a query; anything but one SELECT is refused."""
    with _parser().session() as session:
        try:
            statements = session.extract_statements(sql)
            if not statements:
                raise QueryRefused("the query is a comment and nothing else. Write one SELECT.")
            if len(statements) > 1:
                raise QueryRefused(f"the query is {len(statements)} statements. Write one SELECT.")
            ((text,),) = session.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
            parsed = json.loads(text)
        except duckdb.Error as wrong:
            raise NotParsed(first_line(wrong)) from None
        except RecursionError:
            raise NotParsed("it is nested too deeply") from None
    kinds = {str(node.get("type")) for node in nodes(parsed)}
    if parsed["error"] or {kind for kind in kinds if kind.endswith("_NODE")} - set(_SELECTS):
        raise QueryRefused("the query is not a SELECT. A source is read and never written: write one SELECT.")
    tree: Tree = parsed["statements"][0]
    return tree


def parsed(source: Query, *, party: str, own_grammar: bool = False) -> Tree | None:
    """The tree of a query; None for a text that only its database may know, which is not DuckDB (`own_grammar`)."""
    if not own_grammar and _NESTED_COMMENT.search(source.sql):
        return None
    try:
        return statement(source.sql)
    except NotParsed as error:
        if not own_grammar:
            return None
        wrong = refusal(party, str(source), f"the query cannot be run: {error}.")
    except QueryRefused as error:
        wrong = refusal(party, str(source), str(error), kind=QueryRefused)
    raise wrong


def check_rows_apart(source: Query, tree: Tree | None, catalogue: Catalogue, *, party: str) -> None:
    """Refuse a query that combines rows and does not acknowledge it; `tree` is None where it cannot be parsed."""
    combined = grouped(tree, catalogue)
    missing = [kind for kind in KINDS if kind in combined and kind not in source.combines_rows]
    if not missing:
        return
    named = ", ".join(f"{combined[kind]} ({kind})" for kind in missing)
    write = json.dumps([kind for kind in KINDS if kind in combined])
    raise QueryRefused(
        f"{owned(party, str(source))}: the query takes rows together: {named}. A row may then depend on other people's "
        "rows, and ε is computed for rows that do not. Take it out, or, if you have made sure that a row depends on "
        f"one person alone, write combines_rows = {write} beside sql."
    )


def grouped(tree: Tree | None, catalogue: Catalogue) -> dict[str, str]:
    """By kind, the first thing in a query, or in what it names, that takes rows together."""
    if tree is None:
        return {"unparsed": "a text that cannot be parsed here"}
    combined: dict[str, str] = {}

    @cache
    def definitions(name: str) -> list[SqlText | None]:
        trees = map(_definition, catalogue.texts.get(name, ()))
        return [None if tree is None else SqlText(tree, definitions, catalogue.also_main) for tree in trees]

    query = SqlText(tree, definitions, catalogue.also_main)
    for table in sorted(table for table, times in query.reads(tree).items() if times > 1):
        combined.setdefault("self-join", f"table {table!r}, which is read twice")
    waiting, seen = [("", query)], set()
    while waiting:
        where, text = waiting.pop(0)
        for what in text.untied():
            combined.setdefault("subquery", f"{what}{where}")
        for node in nodes(text.tree):
            for kind, what in _of_node(node, catalogue):
                combined.setdefault(kind, f"{what}{where}")
            for name in names(node):
                if name not in catalogue.texts or name in seen:
                    continue
                seen.add(name)
                inside = definitions(name)
                waiting += [(f" in {name!r}", text) for text in inside if text is not None]
                if None in inside:
                    what = f"the definition of {name!r}, which cannot be parsed here"
                    combined.setdefault("unparsed", what)
    return combined


@cache
def aggregates() -> frozenset[str]:
    """The names of all aggregate functions that DuckDB has, and so those into which its parser turns others."""
    with _parser().session() as session:
        rows = session.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
        ).fetchall()
    return frozenset(str(name).lower() for (name,) in rows)


def texts_by_name(rows: Iterable[Sequence[Any]]) -> dict[str, list[str]]:
    """Definitions under their names in lower case: a query that names one may mean any of that name."""
    texts: dict[str, list[str]] = {}
    for name, text in rows:
        if text is not None:
            texts.setdefault(str(name).lower(), []).append(str(text))
    return texts


def _of_node(node: Tree, catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    kind, name = node.get("type"), str(node.get("function_name", "")).lower()
    if node.get("class") == "WINDOW":
        yield "window", f"{name}() OVER"
    elif node.get("class") == "FUNCTION":
        arguments = node.get("arguments") or node.get("children") or ()
        of_row = catalogue.largest_of_row and name in ("min", "max") and len(arguments) > 1
        marked = node.get("distinct") or node.get("filter") or (node.get("order_bys") or {}).get("orders")
        if marked or (name in catalogue.aggregates and not of_row):
            yield "aggregate", "count(*)" if name == "count_star" else f"{name}()"
        if name in catalogue.opaque or name in _RUN_TEXTS:
            yield "unparsed", f"{name}(), whose text is not known here"
    if node.get("group_sets") or node.get("group_expressions"):
        yield "aggregate", "GROUP BY"
    elif node.get("having") or node.get("aggregate_handling") == "FORCE_AGGREGATES":
        yield "aggregate", "GROUP BY ALL or HAVING"
    if kind == "SHOW_REF" or (kind == "PIVOT" and node.get("aggregates")):
        yield "aggregate", "PIVOT" if kind == "PIVOT" else "SUMMARIZE or DESCRIBE"
    if kind in ("LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"):
        yield "limit", "LIMIT"
    if kind == "DISTINCT_MODIFIER" and node.get("distinct_on_targets"):
        yield "limit", "DISTINCT ON"
    if node.get("sample"):
        yield "sample", "a sample"
    if kind == "RECURSIVE_CTE_NODE":
        yield "self-join", f"{node.get('cte_name')!r}, which reads itself"


def _definition(text: str) -> Tree | None:
    """The SELECT of a view, which begins after one of the words AS; or of a macro, which may be an expression."""
    if _NESTED_COMMENT.search(text):
        return None
    starts = [0, *(match.end() for match in re.finditer(r"\bas\b", text, re.IGNORECASE))]
    for candidate in (*(text[start:] for start in starts), f"SELECT {text}"):
        try:
            return statement(candidate)
        except (NotParsed, QueryRefused):
            continue
    return None
