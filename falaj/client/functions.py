"""Python functions that make rows of datasets, on their way to a job: read here as text, and never run here."""

import ast
import json
import keyword
import re
from pathlib import Path
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.client import packing
from falaj.datasets.operations.derivations import code_digest
from falaj.datasets.operations.deriving import FoundDerived
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.operations.words import Resources

LARGEST: Final = 200_000
TEXT: Final = "function.py"
TOLD: Final = "derivation.json"
_PERMISSIONS: Final = ("dataset.read", "dataset.write")
_PERSONAL: Final = "dataset.personal"


@value
class Function:
    """`source` is the text of the file that has it, `lock` the requirements it runs with."""

    source: str
    name: str
    lock: str = ""

    @property
    def code(self) -> str:
        return code_digest(self.source, self.name, self.lock)


def function_in(reference: str, lock: str = "", folder: Path | None = None) -> Function:
    """`features.py`, where that has one function, or `features.py:spent`. Raises `Invalid`."""
    file, _, name = reference.partition(":")
    path = (folder or Path()) / file
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no UTF-8'}.") from None
    if len(source) > LARGEST:
        raise Invalid(f"{path} has more than {LARGEST:,} letters: a function goes along as one file.")
    there = _functions(source, str(path))
    if name and name not in there:
        raise Invalid(f"{path} has no function {name!r}. There are: {', '.join(there) or 'none'}.")
    if not name and len(there) != 1:
        said = f"has {len(there)} ({', '.join(there)})" if there else "has none"
        raise Invalid(f"{path} {said}: name the function that makes the rows, like {file}:{there[0] if there else 'rows'}.")
    return Function(source=source, name=name or there[0], lock=lock)


def _functions(source: str, path: str) -> list[str]:
    """Those that stand by themselves, and are not meant for the others alone."""
    try:
        tree = ast.parse(source, path)
    except (SyntaxError, ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise Invalid(f"{path} is no Python that can be read{where}: {getattr(error, 'msg', error)}.") from None
    found = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
    return [name for name in found if not name.startswith("_")]


def argument_of(dataset: str) -> str:
    """What a function calls the table of a dataset: its name, with _ for whatever no name in Python has."""
    name = re.sub(r"[^a-z0-9_]", "_", dataset)
    return f"_{name}" if name[0].isdigit() else f"{name}_" if keyword.iskeyword(name) else name


def packed(function: Function, into: str, found: FoundDerived) -> bytes:
    """The files of the job: the text, and what it is to be run over."""
    told = {
        "dataset": into,
        "zone": found.zone,
        "function": function.name,
        "code": function.code,
        "inputs": found.inputs,
    }
    return packing.packed_alone({TEXT: function.source.encode(), TOLD: json.dumps(told).encode()})


def job_of(function: Function, into: str, found: FoundDerived, resources: Resources, *, source: str, **fields: object) -> Spec:
    """What fails would fail again, so it is not tried again; where its host is lost it is."""
    given = {"retries": 0, **fields}
    return Spec(
        name=f"derive {into}"[:100],
        command=("python", "-m", "falaj.client.deriving_job"),
        lock=function.lock,
        resources=resources,
        zone=found.zone,
        permissions=(*_PERMISSIONS, _PERSONAL) if found.classified else _PERMISSIONS,
        source=source,
        **given,  # type: ignore[arg-type]
    )
