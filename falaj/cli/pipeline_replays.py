"""Running again what made a version of a model, and saying whether the same comes out."""

from typing import Any

from falaj.base.errors import NotFound
from falaj.cli.layout import Layout
from falaj.cli.naming import every
from falaj.cli.pipeline_following import follow_run
from falaj.cli.pipeline_looks import SHORT
from falaj.cli.terminal import Terminal
from falaj.lifecycle.operations.pipelines import (
    FIND_MAKER,
    SHOW_RUN,
    START_RUN,
    FindMaker,
    Maker,
    OneRun,
    PipelineRun,
    StartRun,
)
from falaj.registry.operations.versions import LIST_VERSION_FILES, SHOW_VERSION, ListVersionFiles, OneVersion, Version
from falaj.tracking.operations import runs


def replay(terminal: Terminal, project: str, model: str, version: int) -> int:
    """0 where the same came out, 1 where it did not. What came before is taken as it was then: nothing of that is made anew,
    and no event is waited for."""
    maker = terminal.call(FIND_MAKER, FindMaker(project=project, model=model, version=version))
    by = f"{maker.step} of {maker.pipeline} {maker.run[-SHORT:]}"
    if not maker.first:
        raise NotFound(
            f"{by} registered {model}:{version}, and no step of that run made what it registered: nothing can be run again."
        )
    terminal.say(f"{model}:{version} was made by {by}, version {maker.version}.")
    started = terminal.call(
        START_RUN,
        StartRun(
            project=project,
            pipeline=maker.pipeline,
            version=maker.version,
            anew=True,
            of=maker.run,
            from_step=maker.first,
            only=(maker.step,),
            replay_of=f"{model}:{version}",
            words=f"A replay of {model}:{version}.",
        ),
    )
    if status := follow_run(terminal, project, started.id, aside=True):
        return status
    again = _made(terminal.call(SHOW_RUN, OneRun(project=project, run=started.id)), maker, model)
    return _compared(terminal, project, (model, version), again)


def _made(run: PipelineRun, maker: Maker, model: str) -> tuple[str, int]:
    """The version that came out now: of the same model, by the same step, of the same item."""
    found = [one.result for one in run.steps if (one.name, one.item) == (maker.step, maker.item)]
    for one in found:
        if isinstance(one, dict) and one.get("model") == model and isinstance(one.get("version"), int):
            return model, one["version"]
    raise NotFound(f"The replay {run.id[-SHORT:]} handed on no version of {model}.")


def _compared(terminal: Terminal, project: str, before: tuple[str, int], now: tuple[str, int]) -> int:
    one, other = _version(terminal, project, before), _version(terminal, project, now)
    files = _differing(_files(terminal, project, before), _files(terminal, project, now))
    figures = _metrics(terminal, project, one)
    metrics = _differing(figures, _metrics(terminal, project, other))
    same = not files or (bool(figures) and not metrics)
    document = {
        "model": before[0],
        "version": before[1],
        "again": now[1],
        "same": same,
        "files": files,
        "metrics": metrics,
    }
    terminal.told(document, _told(before, now, files, metrics, same))
    if not terminal.as_json:
        rows = [*(("file", *row) for row in files), *(("metric", *row) for row in metrics)]
        if rows:
            Layout().table(("what", "name", "before", "now"), rows)
    return 0 if same else 1


def _told(before: tuple[str, int], now: tuple[str, int], files: list[Any], metrics: list[Any], same: bool) -> str:
    names = f"{before[0]}:{before[1]} and its replay {now[0]}:{now[1]}"
    if not files:
        return f"{names} are the same, byte for byte."
    if same:
        return f"{names} have other bytes in {len(files)} files, and the same figures."
    return f"{names} differ: {len(files)} files, {len(metrics)} figures."


def _version(terminal: Terminal, project: str, one: tuple[str, int]) -> Version:
    return terminal.call(SHOW_VERSION, OneVersion(project=project, model=one[0], version=one[1]))


def _files(terminal: Terminal, project: str, one: tuple[str, int]) -> dict[str, Any]:
    def page(cursor: str) -> Any:
        return terminal.call(LIST_VERSION_FILES, ListVersionFiles(project=project, model=one[0], version=one[1], cursor=cursor))

    return {file.name: file.digest[:16] for file in every(page)}


def _metrics(terminal: Terminal, project: str, version: Version) -> dict[str, Any]:
    if not version.run:
        return {}
    run = terminal.call(runs.SHOW_RUN, runs.OneRun(project=project, run=version.run))
    return {one.key: one.value for one in run.metrics}


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    names = sorted(before.keys() | now.keys())
    return [(name, before.get(name), now.get(name)) for name in names if before.get(name) != now.get(name)]
