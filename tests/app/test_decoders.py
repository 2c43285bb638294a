"""What several threads read by its type is known before there are threads."""

import ast
from pathlib import Path

import falaj
from falaj.app import decoders

PLAIN = {"dict", "str", "list", "tuple", "None", "kind"}  # and what `monitoring.reading` is given


def test_every_kind_that_the_rooms_of_the_platform_decode_is_prepared():
    prepared = {name.id for name in ast.walk(ast.parse(Path(decoders.__file__).read_text())) if isinstance(name, ast.Name)}
    aliased = {"Standing"} if {"OfTests", "OfColumns", "OfLosses"} <= prepared else set()
    for room in ("jobs", "monitoring", "serving"):
        for file in Path(falaj.__file__).parent.joinpath(room).rglob("*.py"):
            if "plane" not in file.parts:
                assert _decoded_in(file) <= prepared | aliased | PLAIN, file


def _decoded_in(file: Path) -> set[str]:
    calls = [one for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.Call)]
    kinds = [kind.value for call in calls if _is_decode(call) for kind in call.keywords if kind.arg == "type"]
    return {name.id for kind in kinds for name in ast.walk(kind) if isinstance(name, ast.Name)}


def _is_decode(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func).startswith("msgspec.") and call.func.attr == "decode"
