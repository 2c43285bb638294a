"""Write docs/reference.md from the declared operations, docs/commands.md from the tree of commands, and
docs/inference-protocol.md from the cases that predictions are held to.

.venv/bin/python scripts/write_reference.py
"""

import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from falaj.api.openapi import url_of
from falaj.app.platform import OPERATIONS
from falaj.cli.main import SECTIONS, application
from falaj.testing.inference import GrpcConformance, InferenceConformance, RestConformance

DOCS = Path(__file__).parents[1] / "docs"
COMMON = {"--json", "--home", "--help"}

OPERATIONS_HEAD = """\
# Operations

Written by `scripts/write_reference.py` from the declarations; do not edit it. Every operation has one HTTP route, one
permission and one kind of record. `GET /openapi.json` of a running platform has the requests and results in full.

- **group** is the kind of power a permission is; roles are given groups (see [security.md](security.md#roles)).
- **scope** is what is touched: one project, or the platform itself.
- **record** is what a call leaves in the ledger: `change` and `sensitive-read` one leaf each, `telemetry` one leaf per window,
  `plain-read` nothing. A refused call of somebody authenticated leaves a leaf in every class.

| operation | method and path | permission | group | scope | record | what it does |
|---|---|---|---|---|---|---|
"""

COMMANDS_HEAD = """\
# Commands

Written by `scripts/write_reference.py` from the commands themselves; do not edit it.

Every command takes `--json` (print JSON for programs), `--home DIR` (the platform's home; without it `$FALAJ_HOME`, else
`~/.falaj`) and `--help`. The exit status is 0 when it is done, 1 when it failed, 2 when it was asked wrongly. What went wrong
is one line on standard error. `FALAJ_DEBUG=1` adds where in the code.

A command finds the platform by `FALAJ_URL`, the home's `credentials.json`, or the last `falaj login`; and the token by
`FALAJ_TOKEN`, or beside the address it belongs to. `FALAJ_CA` names a PEM file of further authorities to believe under TLS.
What went wrong inside the platform is told with the id of the request, by which its log has it.
"""

CASES_HEAD = """\
# The inference protocol, case by case

Written by `scripts/write_reference.py` from `falaj/testing/inference.py`; do not edit it. Each row is a promise of the Open
Inference Protocol (v2), which Triton and KServe speak, with its extensions for binary tensors and for the repository of
models; that a token is shown is Falaj's own. The cases run over each face that is marked, in CI, against a real serving plane
with real models:

    pytest tests/serving/test_inference_protocol.py

Where a case has forms, all of them run: a tensor of every datatype (BOOL, INT8 to INT64, UINT8 to UINT64, FP16, FP32, FP64,
BYTES) goes in JSON and in binary, in gRPC's typed and in its raw contents. The requests are made without Falaj's own code for
the protocol. To hold another server to the same list, inherit the three classes and say where it is.

| the promise | REST | gRPC |
|---|---|---|
"""


def operations() -> str:
    rows = [
        f"| `{op.name}` | `{op.method} {url_of(op)}` | `{op.permission.name}` | {op.permission.group.value} | {op.scope.value} "
        f"| {op.record.value} | {op.summary.rstrip('.')} |\n"
        for op in sorted(OPERATIONS, key=lambda op: op.name)
    ]
    return OPERATIONS_HEAD + "".join(rows)


def commands() -> str:
    root = typer.main.get_command(application)
    parts = [COMMANDS_HEAD]
    for section, names in SECTIONS.items():
        parts.append(f"\n## {section}\n")
        for name in names:
            parts += [_described(path, leaf) for path, leaf in leaves(root.get_command(None, name), (name,))]  # type: ignore[attr-defined]
    return "".join(parts)


def cases() -> str:
    """In the words of the tests' own names."""
    rows = []
    for suite, faces in ((InferenceConformance, "yes | yes"), (RestConformance, "yes | -"), (GrpcConformance, "- | yes")):
        names = [name.removeprefix("test_") for name in vars(suite) if name.startswith("test_")]
        words = [name.replace("_", " ").replace("json", "JSON").replace("grpc", "gRPC") for name in names]
        rows += [f"| {text[0].upper()}{text[1:]} | {faces} |\n" for text in words]
    return CASES_HEAD + "".join(rows)


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command at or below this one that can be run."""
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from leaves(command.get_command(None, name), (*path, name))


def _described(path: tuple[str, ...], command: Any) -> str:
    text, _, example = command.help.partition("Example: ")
    sentence = re.sub(r"\s+", " ", text).strip()
    lines = [f"\n### falaj {' '.join(path)}\n\n{sentence}\n\n    {example.strip()}\n"]
    own = [one for one in command.params if not (COMMON & set(one.opts) or getattr(one, "hidden", False))]
    if own:
        lines.append("\n| argument or option | meaning |\n|---|---|\n")
        lines += [f"| `{_escaped(_written(command, parameter))}` | {_escaped(parameter.help)} |\n" for parameter in own]
    return "".join(lines)


def _written(command: Any, parameter: Any) -> str:
    """How it is typed: an argument by its name, an option with the name of what follows it or the words one may choose from."""
    name = parameter.metavar or parameter.name.upper()
    if parameter.param_type_name == "argument":
        return str(name if parameter.required else f"[{name}]")
    if parameter.is_flag:
        return str(parameter.opts[0])
    choices = "|".join(_choices(inspect.signature(command.callback).parameters[parameter.name].annotation))
    return f"{parameter.opts[0]} {choices or name}"


def _choices(hint: Any) -> list[str]:
    if isinstance(hint, type) and issubclass(hint, Enum):
        return [str(choice.value) for choice in hint]
    if get_origin(hint) is Literal:
        return [str(choice) for choice in get_args(hint)]
    return [choice for argument in get_args(hint) if not isinstance(argument, str) for choice in _choices(argument)]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


WRITTEN = {"reference.md": operations, "commands.md": commands, "inference-protocol.md": cases}

if __name__ == "__main__":
    for file, written in WRITTEN.items():
        (DOCS / file).write_text(written())
        print(f"docs/{file}", file=sys.stderr)
