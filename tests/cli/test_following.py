"""What is said of a job that is followed: each thing once, and nothing that was said before it was sent."""

from types import SimpleNamespace
from typing import Any

import pytest

from falaj.base.errors import Unavailable
from falaj.cli.following import follow_job, write_safely
from falaj.client.job_logs import LONGEST, last_line
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.words import Usage

JOB = "a" * 32
RETRY = "Try 1 ended with code 1. Tried again in 10 s (retry 1 of 1)."
EXPLAINED = {
    "retry": SimpleNamespace(state="waiting", rule="retry", sentence="It failed, and is tried again in 9 s."),
    "now": SimpleNamespace(state="waiting", rule="starting", sentence="It starts now."),
    "began": SimpleNamespace(state="starting", rule="", sentence="It is starting."),
    "full": SimpleNamespace(state="waiting", rule="room", sentence="No host has room now."),
}


class Story:
    """A platform that tells of one moment after the other: the job's state, its tries, the log of the last, why it waits."""

    def __init__(self, *moments: tuple[str, int, str | None, str]) -> None:
        self.moments, self.now = list(moments), moments[0]
        self.said: list[str] = []

    def say(self, words: str) -> None:
        self.said.append(words)

    def call(self, operation: Any, request: Any) -> Any:
        if operation is declared.SHOW_JOB:
            self.now = self.moments.pop(0)
        state, tries, log, why = self.now
        if operation is declared.SHOW_JOB:
            return SimpleNamespace(
                id=JOB,
                name="train",
                state=state,
                attempts=tries,
                progress=0.0,
                started=None,
                ended=None,
                words="",
                usage=Usage(),
            )
        if operation is declared.READ_EVENTS:
            return SimpleNamespace(items=[SimpleNamespace(attempt=1, kind="retry", words=RETRY)])
        if operation is declared.EXPLAIN_JOB:
            return EXPLAINED[why]
        if log is None:
            raise Unavailable("It is being put away.")
        return SimpleNamespace(text=log[request.offset :], next=len(log), note="", over=False)


def followed(story: Story, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("time.sleep", lambda _: None)
    follow_job(story, "fraud", JOB)  # type: ignore[arg-type]
    return story.said[:-1]  # the last says how it ended


def test_why_a_try_failed_is_said_once_with_its_last_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    log = "begun\nno column 'age'\nfalaj: single ended\n"
    story = Story(
        ("running", 1, "begun\n", ""),
        ("waiting", 1, log, "retry"),
        ("waiting", 1, log, "retry"),
        ("done", 2, "well\n", ""),
    )
    assert followed(story, monkeypatch) == [f"{RETRY} Its last line: no column 'age'"]
    assert capsys.readouterr().out == log + "well\n"


def test_a_try_that_failed_between_two_looks_is_told_of(monkeypatch: pytest.MonkeyPatch):
    assert followed(Story(("running", 1, "", ""), ("done", 2, "", "")), monkeypatch) == [RETRY]


def test_that_it_starts_now_is_not_said_again_and_what_keeps_it_is(monkeypatch: pytest.MonkeyPatch):
    moments = [("waiting", 0, "", why) for why in ("now", "began", "full", "full", "now")]
    assert followed(Story(*moments, ("done", 1, "", "")), monkeypatch) == ["Waiting: No host has room now."]


def test_what_starts_now_for_long_is_said_to_wait(monkeypatch: pytest.MonkeyPatch):
    moments = [("waiting", 0, "", "now")] * 40
    assert followed(Story(*moments, ("done", 1, "", "")), monkeypatch) == ["Waiting: It starts now."]


def test_a_log_that_is_being_put_away_is_waited_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert followed(Story(("done", 1, None, ""), ("done", 1, "all of it\n", "")), monkeypatch) == []
    assert capsys.readouterr().out == "all of it\n"


@pytest.mark.parametrize(
    ("log", "line"),
    [("", ""), ("one\n\n  two  \n\n", "two"), ("falaj: single: x.py\n", ""), ("x" * 999, "x" * LONGEST)],
)
def test_the_last_line_is_the_jobs_own(log: str, line: str):
    assert last_line(log) == line


@pytest.mark.parametrize(
    ("text", "on_a_terminal", "in_a_pipe"),
    [
        ("10 %\r90 %\n", "10 %\r\x1b[K90 %\n", "10 %\n90 %\n"),
        ("a\r\nb\n", "a\nb\n", "a\nb\n"),
        ("\x1b[2K\x9b31m\u202eok\n", "\ufffd[2K\ufffd31m\ufffdok\n", "\ufffd[2K\ufffd31m\ufffdok\n"),
    ],
    ids=["begun-again", "windows", "orders"],
)
def test_what_a_job_wrote_cannot_make_another_line_of_it(
    text: str, on_a_terminal: str, in_a_pipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    write_safely(text)
    assert capsys.readouterr().out == in_a_pipe
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_safely(text)
    assert capsys.readouterr().out == on_a_terminal
