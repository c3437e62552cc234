"""Which tables a query reads twice, and which it reads in a subquery that is not tied to its row.

Both ways a row can hold what stands in another person's row. What a query names is followed through its own CTEs, and
through views and macros, to the tables behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

Tree = dict[str, Any]
Definitions = Callable[[str], Sequence["SqlText | None"]]
"""What the name of a view or macro stands for; None for a text that cannot be parsed."""
_Path = tuple[str, ...]
_Name = tuple[str, str]


class SqlText:
    """A query, or the definition of a view or macro, and the tables behind what it names.

    `also_main` is another name of the schema `main`.
    """

    def __init__(self, tree: Tree, definitions: Definitions, also_main: str = "") -> None:
        self.tree = tree
        self._definitions = definitions
        self._also_main = also_main
        self._ctes: dict[str, list[Tree]] = {}
        for node in nodes(tree):
            for one in (node.get("cte_map") or {}).get("map", ()):
                self._ctes.setdefault(str(one["key"]).lower(), []).append(one["value"])
        self._known: dict[tuple[str, frozenset[_Name]], Counter[_Path]] = {}

    def reads(self, part: Tree) -> Counter[str]:
        """How often a part of the text reads each table; two stands for more.

        Where a name may mean the same table as a longer one (`people`, `core.people`), it counts as that.
        """
        paths = self.paths(part)
        return Counter(
            {
                ".".join(path): min(
                    2, sum(times for other, times in paths.items() if _may_be_one(path, other))
                )
                for path in paths
            }
        )

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
                outer |= _tables_of(part)
            elif part.get("type") == "TABLE_FUNCTION":
                part = {"arguments": part.get("function", {}).get("arguments")}
            elif part.get("class") == "SUBQUERY":
                tables = sorted(self.reads(part["subquery"]))
                if tables and not _is_tied(part["subquery"]["node"], outer):
                    yield f"a subquery on {tables[0]!r} that no equality of two columns ties to its row"
            elif part.get("class") == "FUNCTION":
                (name,) = names(part)
                if any(inside and inside.reads(inside.tree) for inside in self._definitions(name)):
                    yield f"{name}, which reads a table of its own"
            waiting += [(one, outer) for one in part.values()]

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
                found = _most(self.paths(body, above | {cte}) for body in self._ctes[name])
            elif defined not in above and (texts := self._definitions(name)):
                # A definition has CTEs of its own, and sees none of those around its name.
                inside = frozenset(one for one in above if one[0] == "defined") | {defined}
                found = _most(text.paths(text.tree, inside) for text in texts if text)
            else:
                schema, _, table = name.rpartition(".")
                path = ("main" if schema == self._also_main else schema, table) if schema else (table,)
                found = Counter() if name.endswith("()") else Counter({path: 1})
            self._known[key] = found
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


def _may_be_one(path: _Path, other: _Path) -> bool:
    shorter = min(len(path), len(other))
    return path[-shorter:] == other[-shorter:]


def _tables_of(select: Tree) -> frozenset[str]:
    names, waiting = set(), [select.get("from_table") or {}]
    while waiting:
        part = waiting.pop()
        if part.get("type") == "JOIN":
            waiting += [part["left"], part["right"]]
        else:
            names.add(str(part.get("alias") or part.get("table_name") or "").lower())
    return frozenset(names - {""})


def _is_tied(query: Tree, outer: frozenset[str]) -> bool:
    """Whether a subquery takes only rows of which a column equals a column of the row that it stands in.

    Both columns have to be written with their tables: a column that the inner table does not have is the outer one,
    and then the condition says nothing.
    """
    if query.get("type") == "SET_OPERATION_NODE":
        return all(_is_tied(part, outer) for part in query["children"])
    if query.get("type") != "SELECT_NODE":
        return False
    own = _tables_of(query)
    waiting = [query.get("where_clause") or {}]
    while waiting:
        condition = waiting.pop()
        if condition.get("type") == "CONJUNCTION_AND":
            waiting += condition["children"]
        elif condition.get("type") == "COMPARE_EQUAL":
            sides = {_table_of(condition["left"]), _table_of(condition["right"])}
            if sides & own and sides & (outer - own):
                return True
    return False


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
