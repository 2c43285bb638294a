"""A function goes along as it is written, with plain arguments; what would not arrive is refused."""

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from falaj.training.launchers.errors import Unreadable
from falaj.training.launchers.functions import script_of

BESIDE = 3


def fit(rounds, names=(), *, rate=0.1):
    import math

    print("fitted", rounds, list(names), rate, math.floor(1.5), len(str(rounds)))


def test_the_script_calls_the_function_with_what_was_given():
    script = script_of(fit, [2, ["a", 'b"\\\n']], {"rate": None})
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "fitted 2 ['a', 'b\"\\\\\\n'] None 1 1\n"


def needs_what_is_beside():
    return BESIDE


@functools.cache
def decorated():
    return 1


async def waiting():
    return 1


def closing() -> Callable[[], Any]:
    around = 1

    def inner():
        return around

    return inner


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (lambda: 1, [], "A lambda has no text of its own"),
        (closing(), [], "inner uses around of the function around it"),
        (needs_what_is_beside, [], "uses BESIDE from beside it"),
        (decorated, [], "is no function written with `def`"),
        (waiting, [], "is asynchronous"),
        (print, [], "is no function written with `def`"),
        (fit, [object()], "cannot be sent as JSON: Object of type object"),
        (fit, [float("nan")], "cannot be sent as JSON"),
        (fit, [{1: 2}], "they come back as something else"),
        (fit, [], "fit cannot be called so: missing a required argument: 'rounds'"),
    ],
)
def test_what_would_not_arrive_is_refused(function: Callable[..., Any], arguments: list[Any], words: str):
    with pytest.raises(Unreadable, match=words):
        script_of(function, arguments)


def test_a_function_that_nobody_can_read_is_refused():
    made: dict[str, Any] = {}
    exec("def typed(): pass", made)
    with pytest.raises(Unreadable, match="The text of typed cannot be found"):
        script_of(made["typed"])
