"""A model on its way to another server: its files, and what is learned about it by loading it once."""

import posixpath
from collections.abc import Mapping

from falaj.base.errors import Conflict
from falaj.base.values import value
from falaj.runtimes.engine import Labelled, ModelFiles, Placement, TensorSpec
from falaj.runtimes.tuning import load_tuned
from falaj.serving.states import Endpoint


@value
class Exported:
    """`name` is the endpoint's. `batch` is the number of rows at which it was fastest here. `labelled` are outputs that are
    maps of classes and no tensors."""

    name: str
    revision: int
    model: str
    version: int
    runtime: str
    main: str
    contents: Mapping[str, bytes]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batches: bool
    batch: int
    threads: int
    latency_ms: int
    concurrency: int
    labelled: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(len(content) for content in self.contents.values())

    def beside(self) -> dict[str, bytes]:
        """The other files, as the main one finds them."""
        folder, found = posixpath.dirname(self.main), {}
        for name, content in self.contents.items():
            if name == self.main:
                continue
            place = posixpath.relpath(name, folder or ".")
            if place.startswith("../"):
                raise Conflict(f"The model's file {name!r} does not lie beside {self.main!r}: they cannot be moved together.")
            found[place] = content
        return found


def exported(endpoint: Endpoint, contents: Mapping[str, bytes]) -> Exported:
    """`endpoint` has one revision, `contents` are its files. Loads the model, to ask what it takes and gives."""
    (revision,) = endpoint.revisions
    columns = tuple(column.name for column in revision.columns)
    files = ModelFiles(
        runtime=revision.runtime, main=revision.file, contents=contents, columns=columns, settings=revision.settings
    )
    engine, tuned = load_tuned(files, Placement(), objective_s=endpoint.latency_ms / 2000)
    try:
        return Exported(
            name=endpoint.name,
            revision=revision.number,
            model=revision.model,
            version=revision.version,
            runtime=revision.runtime,
            main=revision.file,
            contents=contents,
            inputs=tuple(engine.inputs),
            outputs=tuple(engine.outputs),
            batches=engine.batches,
            batch=tuned.batch,
            threads=tuned.threads,
            latency_ms=endpoint.latency_ms,
            concurrency=endpoint.concurrency,
            labelled=tuple(engine.labels) if isinstance(engine, Labelled) else (),
        )
    finally:
        engine.close()
