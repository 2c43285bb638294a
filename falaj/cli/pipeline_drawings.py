"""A pipeline's steps drawn into one file that needs nothing else, and the whole log of a step's job."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.cli.following import write_safely
from falaj.cli.terminal import Terminal
from falaj.client.pipelines import files
from falaj.jobs.operations.jobs import READ_LOG, ReadLog
from falaj.lifecycle.operations.pipelines import SHOW_PIPELINE, OnePipeline, Pipeline, PipelineRun, StepShown
from falaj.lifecycle.operations.words import Definition
from falaj.web.drawing.svg import element
from falaj.web.pipelines.graph import graph, links_of, summed, what
from falaj.web.reports.parts import document

# The console's colours, for a drawing that stands by itself.
_COLOURS: Final = {
    "done": "#2e7d4f", "failed": "#b3261e", "cancelled": "#8a5a00", "asking": "#8a5a00", "running": "#1f6feb",
    "waiting": "#8b8f98", "skipped": "#c3c6cc",
}  # fmt: skip
STYLE: Final = "".join(
    (
        "body{margin:2rem;font:14px/1.5 system-ui,sans-serif;color:#1c1e21;background:#fff}",
        "svg{max-width:100%;height:auto;font:12.5px system-ui,sans-serif;background:#fff}",
        ".lineage text{fill:#1c1e21}.lineage text.lineage-kind{font-size:11px;fill:#666a73}",
        ".lineage-node>rect{fill:#fff;stroke:#c3c6cc}.lineage-node>rect.lineage-edge{stroke:none;fill:#8b8f98}",
        ".lineage-line{fill:none;stroke:#8b8f98;stroke-width:1.5}",
        *(f".lineage-{state}>rect.lineage-edge{{fill:{colour}}}" for state, colour in _COLOURS.items()),
    )
)


@value
class Drawn:
    """`shown` is how its steps are, where it is of a run."""

    name: str
    definition: Definition
    shown: tuple[StepShown, ...] = ()
    words: str = ""

    def as_file(self, name: str) -> str:
        """By the ending of the file's name."""
        ending = Path(name).suffix
        if ending == ".svg":
            return _alone(self._picture())
        if ending == ".html":
            main = element("main", element("h1", self.name), element("p", self.words), self._picture())
            return document(self.name, STYLE, main)
        if ending == ".dot":
            return self._dot()
        raise Invalid(f"{name} is to be drawn as what its ending says: .svg, .html or .dot.")

    def steps(self) -> list[dict[str, Any]]:
        seen = summed(self.shown)
        return [
            {"name": one.name, "kind": one.kind, "does": what(one)}
            | ({"state": seen[one.name].state} if one.name in seen else {})
            for one in self.definition.steps
        ]

    def links(self) -> list[list[str]]:
        return [list(one) for one in links_of(self.definition)]

    def _picture(self) -> Markup:
        return graph(self.definition, self.name, summed(self.shown) if self.shown else None)

    def _dot(self) -> str:
        seen = summed(self.shown)
        lines = [f"digraph {_quoted(self.name)} {{", "  rankdir=LR; node [shape=box, style=rounded];"]
        for one in self.definition.steps:
            state = f"\\n{seen[one.name].state}" if one.name in seen else ""
            lines.append(f'  {_quoted(one.name)} [label={_quoted(one.name)[:-1]}\\n{what(one)}{state}"];')
        lines += [f"  {_quoted(one)} -> {_quoted(other)};" for one, other in links_of(self.definition)]
        return "\n".join([*lines, "}", ""])


def of_file(given: str, folder: Path | None) -> Drawn:
    path, _, name = given.partition(":")
    found = files.only_one(files.written(Path(path), folder, only=name), Path(path))
    return Drawn(name=found.name, definition=found.definition, words=found.definition.words)


def of_known(terminal: Terminal, project: str, found: Pipeline | PipelineRun) -> Drawn:
    if isinstance(found, Pipeline):
        return Drawn(name=found.name, definition=found.definition, words=found.definition.words)
    asked = OnePipeline(project=project, pipeline=found.pipeline, version=found.version)
    definition = terminal.call(SHOW_PIPELINE, asked).definition
    words = f"The run {found.id} is {found.state}. {found.words}".strip()
    return Drawn(name=found.pipeline, definition=definition, shown=found.steps, words=words)


def print_log(terminal: Terminal, project: str, job: str) -> None:
    request, texts = ReadLog(project=project, job=job), []
    while True:
        part = terminal.call(READ_LOG, request)
        if terminal.as_json:
            texts.append(part.text)
        else:
            write_safely(part.text)
        if part.next == request.offset:
            break
        request = replace(request, offset=part.next)
    if terminal.as_json:
        terminal.print_json({"job": job, "text": "".join(texts)})


def _alone(picture: Markup) -> str:
    """A file of its own says what it is, and brings its colours along."""
    text = str(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, mark, rest = text.partition(">")
    return f"{head}{mark}<style>{STYLE}</style>{rest}\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
