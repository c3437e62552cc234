"""Small mistakes that a program could have: every place of a module where one could be made, and the module with it.

A mutation is known by its function, the expression before and after, and which of several alike it is, never by its
line: a sample stays the same sample when modules move. Left alone is what no test should hold: docstrings, the words of
errors and of other strings, types, decorators, logging, and how a value prints itself.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.MatMult: ast.Mult,
}
# The bound itself changes sides, or everything does.
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPPOSITES = {"min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all", "ceil": "floor"}
OPPOSITES |= {after: before for before, after in OPPOSITES.items()}
EXTREMES = {"min", "max", "minimum", "maximum", "argmin", "argmax", "any", "all"}
# What rounds, and may be left out: its first argument is what it would have rounded.
ROUNDS = re.compile(
    r"_?(?:round|rounded|rint|nextafter|clip|up|down)$|.*_?(?:root|float|digits|rounded|round)_(?:up|down|above|below)$"
)
REFUSES = re.compile(r"_?(?:check|refuse|require|verify|validate|ensure|confine|must)\w*$")
LOGS = re.compile(r"_?(?:log\w*|warn\w*|tell|debug|info|error|exception|print|progress)$")
# Calls in which two arguments may stand in any order.
NOT_SWAPPED = re.compile(r"(?:zip|min|max|minimum|maximum|gcd|hypot)$")
SHOWS = {"__repr__", "__str__", "__format__", "_repr_html_"}
RETURNS = {"bool": "not ({})", "int": "({}) + 1", "float": "({}) + 1", "Fraction": "({}) + 1", "str": '""'}
CONTAINERS = {"tuple": "()", "list": "[]", "dict": "{}", "set": "set()"}
BYTES = 'b"\\x5a" * ({})'
WORDS = '__import__("numpy").full({}, 0x0123456789ABCDEF, dtype="u8")'
SOURCE = '__import__("colonnade.randomness", fromlist=["x"]).SeededRandomness(0)'
DRAW = "constant draw"


@dataclass(frozen=True)
class Mutation:
    """One mistake: what stands in a function, what would stand there instead, and where that is now."""

    module: str
    function: str
    kind: str
    before: str
    after: str
    place: tuple[int, int, int, int]
    text: str
    nth: int = 0

    @property
    def room(self) -> str:
        """The folder under the package that the module is in."""
        return self.module.split("/")[0]

    @property
    def name(self) -> str:
        """What it is known by, wherever its module lies."""
        return f"{self.function}: {self.before} → {self.after} #{self.nth}"

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.place[0]

    def applied(self, source: str) -> str:
        """The module with this mistake in it."""
        first, start, last, end = self.place
        lines = source.encode().splitlines(keepends=True)
        head, tail = lines[first - 1][:start], lines[last - 1][end:]
        lines[first - 1 : last] = [head + self.text.encode() + tail]
        return b"".join(lines).decode()


def mutations(module: str, source: str) -> list[Mutation]:
    """Every mistake that could be made in a module, those that would be none left out."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for one in _Finder(module, source).all():
        if one.after == one.before:
            continue
        key = (one.function, one.before, one.after)
        found.append(replace(one, nth=seen[key]))
        seen[key] += 1
    return found


class _Finder:
    def __init__(self, module: str, source: str) -> None:
        self.module, self.source, self.tree = module, source, ast.parse(source)
        self.function = ""
        self.returns: ast.expr | None = None
        # Of the parameters here, what they are said to be: two of one type may be taken for each other.
        self.types: dict[str, str] = {}

    def all(self) -> Iterator[Mutation]:
        yield from self._body(self.tree.body)

    def _body(self, statements: Sequence[ast.stmt]) -> Iterator[Mutation]:
        for statement in statements:
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Mutation]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from self._definition(node)
            case ast.Raise() | ast.Import() | ast.ImportFrom() | ast.Assert():
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.AnnAssign(value=value):
                if value is not None:
                    yield from self._expression(value)
            case ast.If():
                if isinstance(node.test, ast.Name | ast.Attribute) and "TYPE_CHECKING" in ast.unparse(
                    node.test
                ):
                    return
                ends = node.body[-1]
                if isinstance(ends, ast.Raise | ast.Return | ast.Continue):
                    kind = "refusal" if isinstance(ends, ast.Raise) else "guard"
                    yield self._made(node.test, kind, "False")
                yield from self._expression(node.test)
                yield from self._body([*node.body, *node.orelse])
            case ast.Expr(value=ast.Call() | ast.Await() as value):
                if REFUSES.match(_called(value)):
                    yield self._made(node, "refusal", "None")
                yield from self._expression(value)
            case ast.Return(value=value) if value is not None:
                yield from self._returned(value)
                yield from self._expression(value)
            case ast.AugAssign():
                other = ARITHMETIC.get(type(node.op))
                if other is not None and not _of_text(node.value):
                    changed = copy.copy(node)
                    changed.op = other()
                    yield self._made(node, "arithmetic", ast.unparse(changed))
                yield from self._expression(node.value)
            case ast.Assign() if _is_type(node.value):
                return
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.stmt):
                        yield from self._statement(child)
                    elif isinstance(child, ast.expr):
                        yield from self._expression(child)
                    elif isinstance(child, ast.ExceptHandler | ast.match_case):
                        yield from self._body(child.body)
                    elif isinstance(child, ast.withitem):
                        yield from self._expression(child.context_expr)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[Mutation]:
        if node.name in SHOWS:
            return
        outer, returns, types = self.function, self.returns, self.types
        self.function = f"{outer}.{node.name}".lstrip(".")
        if not isinstance(node, ast.ClassDef):
            self.returns = node.returns
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            said = {one.arg: ast.unparse(one.annotation) for one in every if one.annotation is not None}
            self.types = types | said
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None:
                    yield from self._expression(default)
        yield from self._body(node.body)
        self.function, self.returns, self.types = outer, returns, types

    def _returned(self, value: ast.expr) -> Iterator[Mutation]:
        if self.returns is None or isinstance(value, ast.Constant | ast.JoinedStr):
            return
        said = ast.unparse(self.returns)
        container = CONTAINERS.get(said.split("[")[0])
        if said in RETURNS:
            yield self._made(value, "return", RETURNS[said].format(ast.unparse(value)))
        elif said.endswith("| None"):
            yield self._made(value, "return", "None")
        elif container is not None and ast.unparse(value) != container:
            yield self._made(value, "return", container)

    def _expression(self, node: ast.expr) -> Iterator[Mutation]:
        if isinstance(node, ast.JoinedStr | ast.Constant) and not isinstance(
            getattr(node, "value", None), bool | int | float
        ):
            return
        if isinstance(node, ast.Call):
            name = _called(node)
            if LOGS.match(name) or name.endswith(("Error", "TypeVar")):
                return
        yield from self._here(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(node, ast.Call) and child is node.func and isinstance(child, ast.Name):
                continue
            if isinstance(child, ast.expr):
                yield from self._expression(child)
            elif isinstance(child, ast.keyword):
                yield from self._expression(child.value)
            elif isinstance(child, ast.comprehension):
                for part in (child.iter, *child.ifs):
                    yield from self._expression(part)
                for part in child.ifs:
                    yield self._made(part, "guard", "True")

    def _here(self, node: ast.expr) -> Iterator[Mutation]:
        match node:
            case ast.BinOp():
                other = ARITHMETIC.get(type(node.op))
                if _is_type(node) or _of_text(node.left) or _of_text(node.right) or other is None:
                    return
                yield self._changed(node, "arithmetic", op=other())
            case ast.UnaryOp(
                op=ast.USub(), operand=ast.BinOp(op=ast.FloorDiv(), left=ast.UnaryOp(op=ast.USub()))
            ):
                division = copy.copy(node.operand)
                assert isinstance(division, ast.BinOp) and isinstance(division.left, ast.UnaryOp)
                division.left = division.left.operand
                yield self._made(node, "rounding", ast.unparse(division))
            case ast.UnaryOp(op=ast.USub()):
                yield self._made(node, "arithmetic", ast.unparse(node.operand))
            case ast.UnaryOp(op=ast.Not()):
                yield self._made(node, "boolean", ast.unparse(node.operand))
            case ast.BoolOp():
                yield self._changed(
                    node, "boolean", op=ast.Or() if isinstance(node.op, ast.And) else ast.And()
                )
            case ast.Compare():
                for place, operator in enumerate(node.ops):
                    for other_operator in COMPARISONS[type(operator)]:
                        operators = [*node.ops[:place], other_operator(), *node.ops[place + 1 :]]
                        yield self._changed(node, "comparison", ops=operators)
            case ast.IfExp():
                yield self._changed(node, "boolean", test=ast.UnaryOp(ast.Not(), node.test))
            case ast.Constant(value=bool()):
                yield self._made(node, "constant", str(not node.value))
            case ast.Constant(value=int() | float() as number):
                yield self._made(node, "constant", repr(number + 1))
                if number != 0:
                    yield self._made(node, "constant", repr(number - 1))
            case ast.Call():
                yield from self._call(node)

    def _call(self, node: ast.Call) -> Iterator[Mutation]:
        name = _called(node)
        drawn = _constant(node, name)
        if drawn is not None:
            yield self._made(node, DRAW, drawn)
            return
        if name in OPPOSITES and not node.keywords[2:]:
            function = copy.copy(node.func)
            if isinstance(function, ast.Name):
                function.id = OPPOSITES[name]
            elif isinstance(function, ast.Attribute):
                function.attr = OPPOSITES[name]
            yield self._changed(node, "extreme" if name in EXTREMES else "rounding", func=function)
        elif ROUNDS.match(name) and node.args:
            yield self._made(node, "rounding", ast.unparse(node.args[0]))
        types = [self.types.get(arg.id) for arg in node.args[:2] if isinstance(arg, ast.Name)]
        if len(types) == 2 and types[0] and types[0] == types[1] and not NOT_SWAPPED.match(name):
            yield self._changed(node, "arguments", args=[node.args[1], node.args[0], *node.args[2:]])

    def _changed(self, node: ast.expr, kind: str, **fields: object) -> Mutation:
        changed = copy.copy(node)
        for field, value in fields.items():
            setattr(changed, field, value)
        return self._made(node, kind, ast.unparse(changed))

    def _made(self, node: ast.expr | ast.stmt, kind: str, after: str) -> Mutation:
        if node.end_lineno is None or node.end_col_offset is None:
            raise ValueError("a tree without places")
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        text = after if isinstance(node, ast.stmt) else f"({after})"
        return Mutation(self.module, self.function, kind, ast.unparse(node), after, place, text)


def _called(node: ast.expr) -> str:
    """The last word of what is called, or nothing."""
    if isinstance(node, ast.Await):
        return _called(node.value)
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _constant(node: ast.Call, name: str) -> str | None:
    """What a draw of randomness gives if it always gives the same, or nothing if this is no draw."""
    arguments = [ast.unparse(arg) for arg in node.args]
    if name in ("bytes", "words") and isinstance(node.func, ast.Attribute) and len(arguments) == 1:
        return (BYTES if name == "bytes" else WORDS).format(arguments[0])
    if len(arguments) != 2 or not re.search(r"randomness|Randomness|source|coins", arguments[1]):
        return None
    match name:
        case "below":
            return f"({arguments[0]}) // 2"
        case "shuffled":
            return f'__import__("numpy").arange({arguments[0]})'
        case "uniform":
            return f"{ast.unparse(node.func)}({arguments[0]}, {SOURCE})"
    return None


def _of_text(node: ast.expr) -> bool:
    """Whether it is seen to be text or a collection, of which sums and multiples are joins and repeats."""
    if isinstance(node, ast.BinOp):
        return _of_text(node.left) or _of_text(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    if _called(node) in (
        "tuple",
        "list",
        "join",
        "str",
        "bytes",
        "to_bytes",
        "tobytes",
        "encode",
        "digest",
        "hex",
    ):
        return True
    return isinstance(node, ast.JoinedStr | ast.Tuple | ast.List | ast.ListComp | ast.Dict | ast.Set)


def _is_type(node: ast.expr) -> bool:
    """Whether it is seen to be a type: `A | None`, `NDArray[...]`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _is_type(node.left) or _is_type(node.right)
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and (
            node.value.id[0].isupper() or node.value.id in CONTAINERS
        )
    if isinstance(node, ast.Name):
        return node.id in ("int", "str", "bool", "float", "bytes") or bool(re.match(r"_?[A-Z][a-z]", node.id))
    return False
