"""Words that are for what a command starts follow `--`. Whoever forgot it is shown the line as it should be."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

_PASSED_ON: Final = ("arguments", "command")  # what such words are called by the commands that take some


def meant(context: Any, arguments: Sequence[str]) -> str:
    """The command line with all that the command does not know behind `--`; empty where that is not what is wrong."""
    if context is None or "--" in arguments:
        return ""
    taken = [one for one in context.command.params if one.param_type_name == "argument"]
    if not any(one.name in _PASSED_ON and one.nargs == -1 for one in taken):
        return ""
    path = context.command_path.split()
    own, others = _parted(arguments[len(path) - 1 :], context.command.params, sum(one.nargs == 1 for one in taken))
    return shlex.join([*path, *own, "--", *others]) if others else ""


def _parted(words: Sequence[str], parameters: Sequence[Any], names: int) -> tuple[list[str], list[str]]:
    """What the command knows, with `names` words that it asks for by place, and all else; values stay with their options. Of a
    line that lacks such a word nobody knows what it means."""
    known = {option: one for one in parameters for option in (*one.opts, *one.secondary_opts) if option.startswith("-")}
    own: list[str] = []
    others: list[str] = []
    place, values = own, 0
    for word in words:
        option = word.partition("=")[0]
        if values:
            values -= 1
        elif word.startswith("-"):
            place, found = (own, known[option]) if option in known else (others, None)
            values = found.nargs if found is not None and not found.is_flag and "=" not in word else 0
        elif place is own and names:
            names -= 1
        else:
            place = others
        place.append(word)
    return own, others if not names else []
