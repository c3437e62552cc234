"""What the tree of the source must look like for the proofs to be about the code."""

import ast
from functools import cache
from pathlib import Path

import pytest

import colonnade

ROOT = Path(colonnade.__file__).parent
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))
}


@cache
def imports(tree: ast.AST) -> tuple[str, ...]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


@cache
def calls(tree: ast.AST) -> tuple[tuple[str, ast.Call], ...]:
    """Every call with the dotted text of what is called."""
    return tuple((ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call))


@cache
def attributes(tree: ast.AST) -> tuple[str, ...]:
    return tuple(ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def functions(tree: ast.AST, named: str = "") -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [node for node in found if not named or node.name == named]


def uses_randomness_source(tree: ast.AST) -> bool:
    sources = ("secrets", "random", "os.urandom", "os.getrandom", "numpy.random", "uuid")
    imported = any(f"{name}.".startswith(f"{source}.") for name in imports(tree) for source in sources)
    drawn = ("np.random", "numpy.random", "os.urandom", "os.getrandom")
    return imported or any(text.startswith(drawn) for text in attributes(tree))


def test_randomness_is_drawn_in_one_module_only() -> None:
    assert [name for name, tree in TREES.items() if uses_randomness_source(tree)] == ["randomness.py"]


def test_nothing_is_unpickled_evaluated_or_imported_by_name() -> None:
    forbidden_imports = ("pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "importlib")
    forbidden_calls = ("eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec")
    for name, tree in TREES.items():
        # It says what is installed, and imports nothing.
        found = [one for one in imports(tree) if one != "importlib.metadata"]
        assert not [one for one in found if one.split(".")[0] in forbidden_imports], name
        assert not [called for called, _ in calls(tree) if called in forbidden_calls], name


def test_arrays_are_loaded_without_pickle() -> None:
    for name, tree in TREES.items():
        for called, node in calls(tree):
            if called in ("np.load", "numpy.load"):
                allowed = [keyword.value for keyword in node.keywords if keyword.arg == "allow_pickle"]
                assert [ast.unparse(value) for value in allowed] == ["False"], name


@pytest.mark.parametrize(
    ("called", "place", "function"),
    [
        ("reconstruct", "protocols/sharing.py", "open_to"),
        ("ring.total", "protocols/secure_sum.py", "secure_sum"),
    ],
)
def test_the_secret_is_interpolated_only_by_the_door(called: str, place: str, function: str) -> None:
    """Shares are interpolated, and masked words are summed, in one function each outside of the crypto room."""

    def does(node: ast.AST) -> bool:
        return any(text == called or text.endswith(f".{called}") for text, _ in calls(node))

    trees = {name: tree for name, tree in TREES.items() if not name.startswith("crypto/") and does(tree)}
    found = {(name, node.name) for name, tree in trees.items() for node in functions(tree) if does(node)}
    assert found == {(place, function)}


def test_ciphertexts_are_decrypted_only_where_owners_meet_without_a_server() -> None:
    for name, tree in TREES.items():
        found = [*(text for text, _ in calls(tree)), *attributes(tree), *imports(tree)]
        decrypts = [text for text in found if text.split(".")[-1].startswith("decrypt")]
        # A bounded mask decrypts what it answers.
        decrypts += [text for text in attributes(tree) if text.endswith(("mask.answer", ").answer"))]
        assert not decrypts or name.startswith(("crypto/", "methods/encrypted/protocol.py")), name


def test_the_encrypted_path_charges_before_anything_else() -> None:
    (coroutine,) = functions(TREES["methods/encrypted/protocol.py"], "encrypted_gradient")
    assert "charge_first" in ast.unparse(coroutine.body[1]), "after the docstring"


def test_numbers_of_any_size_are_decrypted_only_for_data_that_is_public() -> None:
    """`decrypt_any_size` reads out whatever was packed: beyond the crypto room only where there is no defence."""
    using = [name for name, tree in TREES.items() if any("decrypt_any_size" in x for x in imports(tree))]
    (door,) = [name for name in using if not name.startswith("crypto/")]
    (answer,) = functions(TREES[door], "answer")
    (branch,) = [
        node for node in ast.walk(answer) if isinstance(node, ast.If) and "bounded" in ast.unparse(node.test)
    ]
    assert "decrypt_any_size" not in "".join(map(ast.unparse, branch.body))
    assert "decrypt_any_size" in "".join(map(ast.unparse, branch.orelse))


def test_whoever_opens_charges_before_it_tells() -> None:
    for name, opener in (("protocols/sharing.py", "open_to"), ("protocols/secure_sum.py", "secure_sum")):
        (function,) = functions(TREES[name], opener)
        lines = {called: node.lineno for called, node in reversed(calls(function))}
        assert lines["party.ledger.charge"] < lines["tell"], opener


def callers(called: str) -> set[str]:
    return {
        name for name, tree in TREES.items() if any(f".{text}".endswith(called) for text, _ in calls(tree))
    }


def test_only_protocols_send() -> None:
    assert {name.split("/")[0] for name in callers("channel.send")} == {"protocols"}


def test_only_alignment_makes_an_aligned_table() -> None:
    assert callers(".AlignedTable") == {"protocols/alignment.py"}


def test_nothing_is_validated_by_assert() -> None:
    for name, tree in TREES.items():
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)], name


def test_every_module_is_documented() -> None:
    assert [name for name, tree in TREES.items() if not ast.get_docstring(tree)] == []


def test_every_exported_name_has_an_example_that_runs() -> None:
    for exported in colonnade.__all__:
        thing = getattr(colonnade, exported)
        if not isinstance(thing, str):
            assert ">>>" in (thing.__doc__ or ""), exported


def test_the_invariants_would_notice_a_breach() -> None:
    assert uses_randomness_source(ast.parse("import numpy as np\nx = np.random.default_rng()"))
    assert uses_randomness_source(ast.parse("from os import urandom"))
    assert "eval" in [called for called, _ in calls(ast.parse("eval('1')"))]
    assert "self.channel.send" in [called for called, _ in calls(ast.parse("self.channel.send(x)"))]
