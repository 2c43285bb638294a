"""What a step's function returned, as what the step hands on: of the kind that it is said to be, or clearly not."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.client.dataset_pieces import PieceToSend, tables_library
from falaj.client.dataset_writes import write
from falaj.client.datasets import Dataset, published
from falaj.client.http import Client
from falaj.client.pipelines.kinds import THINGS, plain, told
from falaj.datasets.operations.derivations import FunctionUsed
from falaj.datasets.operations.versions import Version
from falaj.datasets.operations.writing import OpenWrite
from falaj.lifecycle.checking import is_of_kind
from falaj.lifecycle.operations.words import LARGEST, Kind
from falaj.registry.operations import versions as registered
from falaj.tables.forms import Form

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9._-]+")


class WrongResult(Exception):
    """What is the matter with it, in a sentence."""


@value
class Making:
    """Of which step, and from what: rows that are returned become a version of the dataset `name`, which came from these."""

    client: Client
    project: str
    function: str
    code: str
    name: str
    inputs: tuple[str, ...]


def handed_on(returned: Any, kind: Kind, making: Making) -> Any:
    """As JSON. Raises `WrongResult`."""
    if kind == "dataset" and not isinstance(returned, tuple(THINGS.values()) + _VERSIONS):
        return _saved(returned, making)
    made = _as_json(returned)
    if not is_of_kind(made, kind):
        raise WrongResult(f"{making.function} is said to hand on {told(kind)}, and returned {_named(returned)}.")
    size = len(json.dumps(made))
    if size > LARGEST:
        raise WrongResult(
            f"{making.function} returned {size:,} bytes; {LARGEST:,} are the most that a step hands on by itself. Return "
            "rows as a DatasetVersion, or keep files with a run."
        )
    return made


_VERSIONS: Final = (Version, Dataset, registered.Version)


def _as_json(given: Any) -> Any:
    if isinstance(given, Version):
        return {"dataset": given.dataset, "version": given.version}
    if isinstance(given, Dataset):
        return {"dataset": given.name, "version": given.version}
    if isinstance(given, registered.Version):
        return {"model": given.model, "version": given.version}
    given = plain(given)
    if type(given).__module__ == "numpy" and getattr(given, "shape", None) == ():
        given = given.item()
    if given is None or isinstance(given, bool | int | str):
        return given
    if isinstance(given, float):
        if given - given != 0:
            raise WrongResult(f"It returned {given}, for which JSON has no word: return None, or say what that means.")
        return given
    if isinstance(given, list | tuple):
        return [_as_json(one) for one in given]
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return {name: _as_json(one) for name, one in given.items()}
    raise WrongResult(
        f"It returned {_named(given)}, which cannot be handed on: return JSON, a version or a run, or say `-> DatasetVersion` "
        "of what returns rows."
    )


def _saved(rows: Any, making: Making) -> dict[str, Any]:
    """The next version of a dataset named like the step, or the current one where its rows are these. Tried again, it is the
    same one."""
    if rows is None:
        raise WrongResult(f"{making.function} is said to hand on {told('dataset')}, and returned nothing.")
    try:
        streams = tables_library("falaj.tables.outgoing").streams(rows)
        pieces = (PieceToSend(number=number, content=content) for number, content in enumerate(streams, 1))
        first = next(pieces)
    except Invalid:
        words = f"{making.function} is said to hand on {told('dataset')}, and returned {_named(rows)}"
        raise WrongResult(f"{words}: return rows (Arrow, pandas, polars, a list of dicts) or a DatasetVersion.") from None
    job = os.environ.get("FALAJ_JOB", "")
    used = FunctionUsed(code=making.code, function=making.function, inputs=making.inputs, job=job) if making.inputs else None
    request = OpenWrite(
        project=making.project,
        dataset=_NOT_IN_NAMES.sub("-", making.name.lower()),
        mode="overwrite",
        form=Form(format="arrow"),
        create=True,
        origin=f"{making.function} over {', '.join(making.inputs)}"[:2000] if making.inputs else making.function,
        key=job[:64],
        unless_same=True,
        derivation=used,
    )
    version = published(write(making.client, request, _chained(first, pieces)).version)
    print(f"{version.dataset}@{version.version} has {version.rows:,} rows.", flush=True)
    return {"dataset": version.dataset, "version": version.version}


def _chained(first: PieceToSend, rest: Any) -> Any:
    yield first
    yield from rest


def _named(given: Any) -> str:
    kind = type(given)
    name = (
        kind.__name__
        if kind.__module__ in ("builtins", "falaj.client.pipelines.kinds")
        else f"{kind.__module__}.{kind.__name__}"
    )
    return f"{name} {str(given)[:80]!r}" if isinstance(given, str | int | float | bool) else name
