"""Views over SQL or over Python functions, as people write them: what of that makes the rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.client.functions import function_in
from falaj.datasets.operations.features import ViewFunction

WORDS: Final = ("dataset", "sql", "python", "from", "lock")


def rows_told(what: str, told: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Fields of the request, by their names: the dataset, or what makes its rows. Files that are named lie in `folder`."""
    if not any(told.get(name) for name in ("dataset", "sql", "python")):
        raise Invalid(
            f"{what} lacks 'dataset', which it is over; or else sql or python, which make its rows of other datasets."
        )
    inputs = told.get("from", [])
    if not isinstance(inputs, list) or not all(isinstance(one, str) for one in inputs):
        raise Invalid(f'{what} has in `from` what is no list of datasets: write it like ["clicks", "users@3"].')
    if inputs and not (told.get("sql") or told.get("python")):
        raise Invalid(f"{what} says `from` and neither sql nor python, which would read that.")
    function = _function(what, told, folder)
    return {"dataset": told.get("dataset", ""), "sql": told.get("sql", ""), "python": function, "inputs": tuple(inputs)}


def _function(what: str, told: Mapping[str, Any], folder: Path) -> ViewFunction | None:
    """The one that `python` names, like features.py:spent."""
    reference, lock = told.get("python", ""), told.get("lock", "")
    if not isinstance(reference, str) or not isinstance(lock, str):
        raise Invalid(f"{what} names its function like features.py:spent, and its lock like requirements.txt.")
    if not reference:
        if lock:
            raise Invalid(f"{what} has a lock and no python: a lock is what a function runs with.")
        return None
    found = function_in(reference, _text(folder / lock) if lock else "", folder)
    return ViewFunction(source=found.source, function=found.name, lock=found.lock)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is no UTF-8'}.") from None
