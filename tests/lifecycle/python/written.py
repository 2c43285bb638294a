"""A folder with a pipeline, written down as the command line does."""

import textwrap
from pathlib import Path

from falaj.client.pipelines.files import only_one, written
from falaj.lifecycle.operations.words import Definition, Step

STEPS = """
import falaj


@falaj.step(cached=True)
def clean(flights: falaj.DatasetVersion, worst: int = 300) -> falaj.DatasetVersion:
    "Flights without mistakes."


@falaj.step
def train(rows: falaj.DatasetVersion, depth: int) -> falaj.ModelVersion: ...


@falaj.step
def score(model: falaj.ModelVersion) -> float: ...


@falaj.step
def tell(words: str) -> None: ...


@falaj.step
def facts(rows: falaj.DatasetVersion) -> dict: ...
"""


def folder_with(folder: Path, pipeline: str, *, steps: str = STEPS, **others: str) -> Path:
    """The file. `others` are further ones, by the name of the module."""
    for name, text in others.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    file = folder / "flow.py"
    file.write_text(steps + textwrap.dedent(pipeline))
    return file


def definition_of(folder: Path, pipeline: str, **more: str) -> Definition:
    file = folder_with(folder, pipeline, **more)
    return only_one(written(file), file).definition


def steps_of(definition: Definition) -> dict[str, Step]:
    return {step.name: step for step in definition.steps}


def line_of(file: Path, text: str) -> int:
    """The line that has this, counted from one."""
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line)
