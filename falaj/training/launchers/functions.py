"""A function as a script: its own text, and a call of it with the arguments that were given."""

import inspect
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from falaj.training.launchers.errors import Unreadable
from falaj.training.launchers.reading import parsed


def script_of(function: Callable[..., Any], arguments: Sequence[Any] = (), named: Mapping[str, Any] | None = None) -> str:
    """What the function needs it imports itself: nothing around it goes along. Raises `Unreadable` where that cannot be."""
    if not inspect.isfunction(function):
        raise Unreadable(f"{function!r} is no function written with `def`; give one, without calling it.")
    name = function.__name__
    if name == "<lambda>":
        raise Unreadable("A lambda has no text of its own; write it with `def`.")
    if function.__code__.co_freevars:
        around = ", ".join(function.__code__.co_freevars)
        raise Unreadable(f"{name} uses {around} of the function around it, which does not go along; pass it as an argument.")
    try:
        inspect.signature(function).bind(*arguments, **(named or {}))
    except TypeError as error:
        raise Unreadable(f"{name} cannot be called so: {error}.") from None
    text = _text_of(function, name)
    _check_names(function, name)
    return f"import json\n\n{text}\n\n{_call(name, arguments, dict(named or {}))}"


def _text_of(function: Callable[..., Any], name: str) -> str:
    try:
        lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    except (OSError, TypeError):
        raise Unreadable(f"The text of {name} cannot be found; put it in a file or a notebook's cell.") from None
    begins = next(number for number, line in enumerate(lines) if line.startswith(("def ", "async def ")))
    if begins:
        raise Unreadable(f"{name} has the decorator {lines[0]}, which does not go along; send it without.")
    if lines[begins].startswith("async "):
        raise Unreadable(f"{name} is asynchronous; send one that calls `asyncio.run` itself.")
    text = "\n".join(lines)
    parsed(text, name)
    return text


def _check_names(function: Any, name: str) -> None:
    """What it names beyond itself has to be built in: what is defined beside it stays behind."""
    beside = inspect.getclosurevars(function)
    missing = sorted(set(beside.globals) - {name})
    if missing:
        raise Unreadable(
            f"{name} uses {', '.join(missing)} from beside it, which does not go along; import or define it within."
        )


def _call(name: str, arguments: Sequence[Any], named: dict[str, Any]) -> str:
    try:
        given = json.dumps([list(arguments), named], allow_nan=False)
        if json.loads(given) != [list(arguments), named]:
            raise ValueError("they come back as something else")
    except (TypeError, ValueError) as error:
        raise Unreadable(
            f"The arguments of {name} cannot be sent as JSON: {error}. Numbers, texts, lists, dicts with texts as keys, "
            "True, False and None can."
        ) from None
    return f'if __name__ == "__main__":\n    _given = json.loads({given!r})\n    {name}(*_given[0], **_given[1])\n'
