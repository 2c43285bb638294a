"""The program of a job that runs a Python function over datasets: their tables in, its rows out, as a version.

`python -m falaj.client.deriving_job`, in the folder that `functions.packed` made. All tables are in memory, as is the result.
"""

import importlib.util
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from falaj.base.errors import FalajError, Invalid
from falaj.client.dataset_pieces import PieceToSend, tables_library
from falaj.client.dataset_writes import write
from falaj.client.datasets import dataset, published
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.functions import TEXT, TOLD, argument_of
from falaj.client.http import Client
from falaj.datasets.operations.derivations import FunctionUsed
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.writing import OpenWrite
from falaj.tables.forms import Form

FAILED: Final = 3


class FunctionFailed(Exception):
    """What the function did wrong, in a sentence."""


def main() -> int:
    told = json.loads(Path(TOLD).read_text(encoding="utf-8"))
    try:
        with client_of_environment() as caller:
            version = published(_done(caller, told))
    except (FunctionFailed, FalajError) as error:
        print(f"falaj: {error}", file=sys.stderr)
        return FAILED
    print(f"{version.dataset}@{version.version} has {version.rows:,} rows.")
    return 0


def _done(caller: Client, told: dict[str, Any]) -> Version:
    name, references = str(told["function"]), [str(one) for one in told["inputs"]]
    function = _loaded(name)
    arguments = _arguments(function, name, references)
    tables = {argument: dataset(one, client=caller).arrow() for argument, one in zip(arguments, references, strict=True)}
    print(f"{name}: {', '.join(f'{one} ({table.num_rows:,} rows)' for one, table in tables.items())}.", flush=True)
    try:
        made = function(**tables)
        streams = tables_library("falaj.tables.outgoing").streams(made)
        pieces = (PieceToSend(number=number, content=content) for number, content in enumerate(streams, 1))
        first = next(pieces)  # what cannot become rows is seen before anything is written
    except Invalid as error:
        raise FunctionFailed(f"What {name!r} returned is no table: {error}") from None
    except Exception as error:  # noqa: BLE001 - whatever users write may raise whatever
        _show_own(error)
        raise FunctionFailed(f"The function {name!r} raised {type(error).__name__}: {error}") from None
    used = FunctionUsed(code=told["code"], function=name, inputs=tuple(references), job=os.environ.get("FALAJ_JOB", ""))
    request = OpenWrite(
        project=project_of_environment(""),
        dataset=told["dataset"],
        mode="overwrite",
        form=Form(format="arrow"),
        create=True,
        zone=told["zone"],
        origin=f"{name} over {', '.join(references)}"[:2000],
        key=os.environ.get("FALAJ_JOB", "")[:64],
        derivation=used,
    )
    return write(caller, request, _chained(first, pieces)).version


def _loaded(name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("function", TEXT)
    if spec is None or spec.loader is None:
        raise FunctionFailed(f"{TEXT} cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - whatever users write may raise whatever
        _show_own(error)
        raise FunctionFailed(f"The file of {name!r} cannot be loaded: {type(error).__name__}: {error}") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise FunctionFailed(f"{name!r} is no function once its file is loaded.")
    return found  # type: ignore[no-any-return]


def _arguments(function: Callable[..., Any], name: str, references: list[str]) -> list[str]:
    """What it calls each table. Said before anything is read where it does not take them."""
    given = [argument_of(one.partition("@")[0]) for one in references]
    try:
        inspect.signature(function).bind(**dict.fromkeys(given))
    except TypeError as error:
        raise FunctionFailed(
            f"{name!r} is called with {', '.join(f'{one}=table' for one in given)}, and does not take that: {error}."
        ) from None
    return given


def _show_own(error: Exception) -> None:
    """Where it happened, from the function's own file on."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).name == TEXT]
    sys.stderr.writelines(traceback.format_list(frames))
    sys.stderr.flush()


def _chained(first: PieceToSend, rest: Any) -> Any:
    yield first
    yield from rest


if __name__ == "__main__":
    sys.exit(main())
