"""Progress for people at a terminal, silence for everybody else."""

import io
import json
import sys

import pytest

from colonnade.cli.screen import complain, note, progress, say, say_json, width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, shown: bool = True) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(shown) as advance:
        for done in (0, 30, 120):
            advance("checking bank", done, 120)
        advance("columns", 60, 120)
    return stream.getvalue()


def test_a_terminal_sees_a_bar_per_step_with_counts_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    seen = drawn(monkeypatch, Terminal())
    assert all(piece in seen for piece in ("checking bank", "120/120", "sharing rows", "60/120", "left"))
    assert "\x1b[3" not in seen, "without colour it reads the same"


def test_a_file_or_a_program_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert drawn(monkeypatch, io.StringIO()) == ""
    assert drawn(monkeypatch, Terminal(), shown=False) == ""


@pytest.mark.parametrize("shown", [True, False])
def test_a_file_or_a_program_is_told_now_and_then_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    seconds = iter([0.0, 1.0, 6.0, 6.0, 7.0, 11.5, 11.5])
    monkeypatch.setattr("colonnade.cli.screen.time.monotonic", lambda: next(seconds))
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress(shown, piped=True) as advance:
        for done in (1, 20, 30, 100):
            advance("rehearsing", done, 100)
    assert (
        stream.getvalue() == "rehearsing on synthetic people: 20 %\nrehearsing on synthetic people: 100 %\n"
    )


def test_text_is_wrapped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert width() is None
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "72")
    assert width() == 72
    monkeypatch.setenv("COLUMNS", "300")
    assert width() == 100


HOSTILE = "age\x1b[2J\x9b31m\u202egnp\x07\x7f\r"


def test_names_that_others_chose_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"column {HOSTILE}\nnext line ε")
    complain(HOSTILE, "E300")
    note(HOSTILE)
    say_json({HOSTILE: [HOSTILE]})
    out, err = capsys.readouterr()
    assert all(c == "\n" or c.isprintable() for c in out + err)
    first, second, data = out.splitlines()
    assert first == r"column age\x1b[2J\x9b31m\u202egnp\x07\x7f\r" and second == "next line ε"
    assert json.loads(data) == {HOSTILE: [HOSTILE]}, "programs read what it was"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_encoding_without_a_letter_ends_nothing(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    say("ε = 1, Müller")
    say_json({"ε": "Müller 😀"})
    sys.stdout.flush()
    text, data = raw.getvalue().decode(encoding).splitlines()
    assert text.startswith(r"\u03b5 = 1, M")
    assert json.loads(data) == {"ε": "Müller 😀"}
