"""What a version of a model says of some rows, in a step: loaded by the runtimes that serve, as an endpoint would answer."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.client.loaded_models import LoadedModel, joined
from falaj.registry.operations.versions import (
    GET_VERSION_FILE,
    LIST_VERSION_FILES,
    SHOW_VERSION,
    GetVersionFile,
    ListVersionFiles,
    OneVersion,
    Version,
)
from falaj.runtimes.engine import Array, ModelFiles

AT_ONCE: Final = 1024  # rows of one run
_ENDINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "onnx": (".onnx",),
    "openvino": (".xml",),
    "litert": (".tflite",),
    "lightgbm": (".txt", ".lgb", ".lgbm"),
    "xgboost": (".json", ".ubj", ".xgb"),
}
_BESIDE: Final = ("requirements.txt", "input_example.json", "serving_input_example.json")


def predicted(model: str, version: int, rows: Any) -> dict[str, Array]:
    """By the names of its outputs. `rows` is a frame, an Arrow table or a list of dictionaries, with the model's columns."""
    project = project_of_environment("")
    with client_of_environment() as client:
        known = client.call(SHOW_VERSION, OneVersion(project=project, model=model, version=version))
        if not known.servable:
            raise Invalid(f"{model}:{version} cannot be loaded as it is; `falaj model servable {model} {version}` says why.")
        loaded = LoadedModel(f"{model}:{version}", _files(client, project, known), threads=len(os.sched_getaffinity(0)))
    try:
        plain = _plain(rows, loaded.columns)
        at_once = AT_ONCE if loaded.engine.batches else 1
        runs = [
            loaded.answers(loaded.arrays(plain[start : start + at_once], start), start)
            for start in range(0, len(plain), at_once)
        ]
        return dict(zip((spec.name for spec in loaded.engine.outputs), joined(runs), strict=True))
    finally:
        loaded.close()


def _files(client: Client, project: str, version: Version) -> ModelFiles:
    asked = ListVersionFiles(project=project, model=version.model, version=version.version)
    names = [one.name for one in client.call(LIST_VERSION_FILES, asked).items]
    main = [
        name for name in names if name.endswith(_ENDINGS.get(version.runtime, ())) and name.rpartition("/")[2] not in _BESIDE
    ]
    if len(main) != 1:
        raise Invalid(
            f"Of {version.model}:{version.version} it is not clear which file is the model: {', '.join(main) or 'none'}."
        )
    contents = {
        name: b"".join(
            client.call(
                GET_VERSION_FILE,
                GetVersionFile(project=project, model=version.model, version=version.version, name=name),
            ).chunks
        )
        for name in names
    }
    fields = json.loads(version.inputs or "[]")
    columns = tuple(str(one["name"]) for one in fields if one.get("type") != "tensor" and one.get("name"))
    return ModelFiles(runtime=version.runtime, main=main[0], contents=contents, columns=columns)


def _plain(rows: Any, columns: Sequence[str]) -> list[list[Any]]:
    """As JSON would have them, in the order of the columns."""
    if hasattr(rows, "to_pylist"):  # Arrow
        found = rows.to_pylist()
    elif hasattr(rows, "to_dicts"):  # polars
        found = rows.to_dicts()
    else:
        found = rows if isinstance(rows, list) else rows.to_dict("records")
    try:
        return [[one[name] for name in columns] for one in found]
    except KeyError as error:
        raise Invalid(f"The model takes the column {error.args[0]!r}, which the rows do not have.") from None
