"""The platform's own steps, as `falaj.steps`: made of declared operations, called in the name of whoever starts the run.

What is a model, dataset or run here is what another step handed on, a parameter of the pipeline, or one of falaj's kinds.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

from falaj.base.memory import mib_of
from falaj.base.spans import seconds_of
from falaj.client.batches.asking import parted
from falaj.client.pipelines import tracing
from falaj.client.pipelines.handles import Handle, Made, Root, kind_in, must_be
from falaj.client.pipelines.kinds import DatasetVersion, ModelVersion, Run, plain
from falaj.client.pipelines.places import wrong
from falaj.lifecycle.operations.words import Family, Kind
from falaj.serving.operations.words import WHOLE

CALLED: Final = Root(("called",))
ANSWER: Final = Root(("answer",))
_PERCENT: Final = WHOLE // 100
_TO_DECIDE: Final = 2 * 86_400  # seconds: for calls that a canary waits for, or for somebody who looks at it
_ON: Final[tuple[Family, ...]] = ("temporary", "timeout", "lost")
Model = Handle | ModelVersion | str
Data = Handle | DatasetVersion
Span = str | int


def operation(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    /,
    *,
    result: Kind = "any",
    until: Mapping[str, Any] | None = None,
    retries: int = 0,
    on: Sequence[Family] = _ON,
    timeout: Span = "1d",
    cached: bool = False,
    named: str = "",
    **more: Any,
) -> Made:
    """Any operation of the project, by its name in the reference: `operation("version.show", model=made.model,
    version=made.version)`. It hands on what that answers. Arguments that are called as options are here go into `arguments`.

    `until` asks a second operation until something holds: `{"operation": "job.show", "arguments": {"job": CALLED.job.id},
    "done": ANSWER.state == "done"}`, with `failed`, `every` (seconds) and `result` where they are wanted.
    """
    now = tracing.within("falaj.steps.operation")
    how = _how(retries, on, timeout, cached)
    return now.record(
        named or name.replace(".", "-"), "operation", result, {**(arguments or {}), **more}, operation=name, until=until, **how
    )


def value(given: Any) -> Made:
    """A value with a name of its own: of several parts, or the first of some."""
    return tracing.within("falaj.steps.value").record("value", "value", kind_in(given), {"value": given})


def approval(question: str | Handle, *, timeout: Span = "7d") -> Made:
    """Waits until somebody who may approve agrees; where they refuse, or nobody says anything in time, the run ends there. What
    is written below it in the same block comes after it. The question may say what is known only then: `falaj.text(...)`."""
    must_be(question, "text", "falaj.steps.approval")
    now, how = tracing.within("falaj.steps.approval"), _how(timeout=timeout)
    if isinstance(question, Handle):
        return now.record("approval", "approval", "any", {"question": question}, holds=True, **how)
    if not question.strip():
        raise wrong("falaj.steps.approval asks a question: a text, such as 'Shall the new version answer?'.")
    return now.record("approval", "approval", "any", {}, holds=True, question=question, **how)


def wait(*, seconds: float | Handle | None = None, event: str = "", timeout: Span = "31d") -> Made:
    """For some `seconds`, or until somebody sends an `event` of that name (`falaj pipeline send`), with what it hands on."""
    if (seconds is None) is not bool(event):
        raise wrong("falaj.steps.wait waits either for so many seconds= or for an event=.")
    must_be(seconds if seconds is not None else 0, "number", "falaj.steps.wait(seconds=...)")
    now = tracing.within("falaj.steps.wait")
    if event:
        return now.record("wait", "wait", "any", {}, holds=True, event=event, **_how(timeout=timeout))
    return now.record("wait", "wait", "nothing", {"seconds": seconds}, holds=True, **_how(timeout=timeout))


# Data


def check(rows: Data) -> Made:
    """That a version passed the checks of its dataset: one that broke them is in quarantine, and the run ends there."""
    must_be(rows, "dataset", "falaj.steps.check")
    one = {"dataset": _part(rows, "dataset"), "version": tracing.text(_part(rows, "version"))}
    return operation(
        "dataset.version", one, result="dataset", until=_published(one, one["dataset"], _part(rows, "version")), named="check"
    )


def derive(into: str, sql: str | Handle, *, inputs: Sequence[Any] = (), anew: bool = False) -> Made:
    """What one SELECT finds in datasets, as a version of the dataset `into`. It reads current versions, or those of `inputs`.
    The same of the same rows is not made twice."""
    given = {"dataset": into, "sql": sql, "inputs": [_reference(one) for one in inputs], "anew": anew}
    return operation("dataset.derive", given, result="dataset", until=_made(into), named=f"derive-{into}")


def training_set(labels: Data | str, *, time: str, features: Sequence[str], into: str, anew: bool = False) -> Made:
    """The values of features that were known at each label's moment, as a version of the dataset `into`."""
    given = {"labels": _reference(labels), "time": time, "features": list(features), "into": into, "anew": anew}
    return operation("feature.training-set", given, result="dataset", until=_made(into), named="training-set")


def _made(into: str) -> dict[str, Any]:
    """Whether the version that was made is published, or broke a check of its dataset."""
    version = CALLED.version.version
    return _published({"dataset": into, "version": tracing.text(version)}, into, version)


def _published(one: Mapping[str, Any], name: Any, version: Any) -> dict[str, Any]:
    return {
        "operation": "dataset.version",
        "arguments": dict(one),
        "done": ANSWER.quarantined == False,  # noqa: E712 - a condition is made of it
        "failed": ANSWER.quarantined,
        "result": {"dataset": name, "version": version},
    }


# Models


def train(
    *command: Any,
    experiment: str,
    cpus: float = 1.0,
    memory: str = "2GiB",
    gpus: float = 0.0,
    lock: str = "",
    image: str = "",
    writes: Sequence[str] = (),
    secrets: Sequence[str] = (),
    hosts: Sequence[str] = (),
    queue: str = "",
    retries: int = 0,
    timeout: Span = "1d",
    named: str = "train",
) -> Made:
    """A script of the pipeline's folder as a job: `train("python", "train.py", "--depth", depth, experiment="late")`. It hands
    on its run. `lock` is the text of a requirements file; `writes` are files below FALAJ_OUTPUT that are kept with the run."""
    now = tracing.within("falaj.steps.train")
    if not command:
        raise wrong("falaj.steps.train is given no command, such as 'python', 'train.py'.")
    spec = {
        "command": [one if isinstance(one, str) else tracing.text(one) for one in command],
        "source": now.source,
        "experiment": experiment,
        "resources": {"cpus": float(cpus), "memory_mib": mib_of(memory), "gpus": float(gpus)},
        "lock": lock,
        "image": image,
        "outputs": list(writes),
        "secrets": list(secrets),
        "hosts": list(hosts),
        "queue": queue,
        "retries": retries,
        "timeout": _seconds(timeout),
    }
    until = {
        "operation": "job.show",
        "arguments": {"job": CALLED.job.id},
        "done": ANSWER.state == "done",
        "failed": tracing.among(ANSWER.state, ["failed", "cancelled"]),
        "result": {"run": ANSWER.run},
    }
    return operation("job.submit", {"spec": spec}, result="run", until=until, timeout=_seconds(timeout) + 86_400, named=named)


def register(
    run: Handle | Run,
    model: str,
    *,
    folder: str = "model",
    description: str = "",
    tags: Mapping[str, Any] | None = None,
) -> Made:
    """The files of a run below `folder` as the next version of a registered model, which is made where there is none."""
    must_be(run, "run", "falaj.steps.register")
    quoted = model.replace("'", "''")
    there = operation("model.search", {"filter": f"name = '{quoted}'", "limit": 1}, named=f"find-{model}")
    with tracing.when(tracing.count(there["items"]) == 0):
        made = operation("model.create", {"model": model}, named=f"create-{model}")
    given = {
        "model": model,
        "holder": _part(run, "run"),
        "run": _part(run, "run"),
        "folder": folder,
        "description": description,
        "tags": [{"key": key, "value": tracing.text(text)} for key, text in (tags or {}).items()],
    }
    return operation("version.create", given, result="model", named=f"register-{model}").after(made)


def optimise(
    model: Model,
    *,
    on: Data | str,
    held_out: Data | str = "",
    label: str = "",
    slices: Sequence[str] = (),
    target: str = "cpu",
    max_drop: float = 0.005,
    max_slice_drop: float = 0.02,
    latency_ms: float = 0.0,
    only: Sequence[str] = (),
    certify: int = 3,
    seconds: int = 900,
    cpus: float = 1.0,
    memory: str = "4GiB",
    timeout: Span = "1d",
) -> Made:
    """The smallest and fastest form that is as good, with a certificate. It hands on `model`, `version`, `variant` (the best
    that is certified, empty where none is) and how many are `certified`."""
    given = {
        **_version(model, "falaj.steps.optimise"),
        "on": _reference(on),
        "held_out": _reference(held_out) if isinstance(held_out, Handle) or held_out else "",
        "label": label,
        "slices": list(slices),
        "target": target,
        "limits": {"max_drop": max_drop, "max_slice_drop": max_slice_drop, "latency_ms": latency_ms},
        "only": list(only),
        "certify": certify,
        "seconds": seconds,
        "cpus": cpus,
        "memory_mib": mib_of(memory),
    }
    return tracing.within("falaj.steps.optimise").record("optimise", "optimise", "model", given, **_how(timeout=timeout))


def run_gates(model: Handle | ModelVersion, *gates: str, timeout: Span = "1d") -> Made:
    """Runs these gates of a version, or all that the project defines, on the files of the pipeline's folder where they run
    commands. It hands on the version once all are passed; where one is not, the run ends there."""
    one = _pinned(model, "falaj.steps.run_gates")
    until = {
        "operation": "gate.results",
        "arguments": {**one, "batch": CALLED.batch},
        "done": ANSWER.passed,
        "failed": ANSWER.over & ~ANSWER.passed,
        "every": 2.0,
        "result": one,
    }
    given = {**one, "gates": list(gates), "source": tracing.within("falaj.steps.run_gates").source}
    return operation("gate.run", given, result="model", until=until, timeout=timeout, named="gates")


def promote(
    model: Handle | ModelVersion, *, alias: str = "champion", reason: str | Handle = "", timeout: Span = "7d"
) -> Handle:
    """Points an alias at a version. Where policy wants approvals first, it waits for them, and then moves it; where they are
    not enough any more by then, the run ends there."""
    one = _pinned(model, "falaj.steps.promote")
    asked = {**one, "alias": alias, "reason": reason}
    first = operation("model.promote", asked, result="model", named="promote")
    with tracing.when(first["state"] == "waiting"):
        approved = _approved(first, timeout)
        moved = tracing.among(CALLED.state, ["done", "unchanged"])
        until = {
            "operation": "model.show",
            "arguments": {"model": one["model"]},
            "done": moved,
            "failed": ~moved,
            "result": CALLED,
        }
        again = operation("model.promote", asked, result="model", until=until, named="promote-approved").after(approved)
    return tracing.first(again, first)


def clear(model: Handle | ModelVersion, *, alias: str = "champion", reason: str | Handle = "", timeout: Span = "7d") -> Handle:
    """That policy lets an alias be pointed at a version, before it is: where approvals are wanted first, it asks for them and
    waits. What was approved may answer as a canary, and `promote` moves the alias by the same approvals afterwards. Its
    ["state"] is "ready" where somebody was asked and agreed."""
    first = operation("approval.ask", {**_pinned(model, "falaj.steps.clear"), "alias": alias, "reason": reason}, named="clear")
    with tracing.when(first["state"] == "waiting"):
        return tracing.first(_approved(first, timeout), first)


def _approved(asked: Handle, timeout: Span) -> Made:
    """Waits for the approvals that a move was said to need."""
    vote = {"approval": asked["approval"]}
    until = {
        "operation": "approval.show",
        "arguments": vote,
        "done": tracing.among(ANSWER.state, ["ready", "used"]),
        "failed": tracing.among(ANSWER.state, ["refused", "withdrawn", "expired", "void"]),
        "every": 2.0,
    }
    return operation("approval.show", vote, until=until, timeout=timeout, named="approved")


# Serving


def deploy(
    model: Model,
    *,
    to: str,
    canary: float = 0.0,
    shadow: float = 0.0,
    ab: float = 0.0,
    variant: str | Handle = "",
    ladder: bool = False,
    features: Sequence[str] | None = None,
    latency_ms: int = 0,
    reason: str | Handle = "",
    timeout: Span = "10m",
) -> Made:
    """Serves a version behind a name: all of its traffic, or per cent of it as a canary, a shadow or an arm. It is over once
    every plane answers by that, and hands on the endpoint and the new revision."""
    modes: tuple[tuple[str, float], ...] = (("canary", canary), ("shadow", shadow), ("ab", ab))
    wished = [(mode, percent) for mode, percent in modes if percent]
    if len(wished) > 1:
        raise wrong("falaj.steps.deploy makes a canary, a shadow or an arm of a test: give one of canary=, shadow=, ab=.")
    mode, percent = wished[0] if wished else ("live", 100.0)
    given = _deployment(model, to, mode, percent, variant=variant, ladder=ladder, features=features, latency_ms=latency_ms)
    until = {
        "operation": "endpoint.show",
        "arguments": {"endpoint": to},
        "done": (ANSWER.ready > 0) & (ANSWER.ready == ANSWER.planes),
        "result": {"endpoint": to, "revision": CALLED.revision},
    }
    return operation(
        "endpoint.deploy", {**given, "reason": reason}, result="endpoint", until=until, timeout=timeout, named="deploy"
    )


def canary(
    model: Model,
    *,
    to: str,
    steps: Sequence[float] = (10, 50, 100),
    every: Span = "5m",
    variant: str | Handle = "",
    reason: str | Handle = "",
    timeout: Span | None = None,
) -> Made:
    """Beside what answers now, for more and more per cent, each held for `every`, until it has everything; where nothing
    answers yet, at once. Where it does worse, the endpoint goes back by itself, and the run ends there. One that somebody
    or an alert stopped growing is waited for: until it is given everything, or taken out. `timeout` is by default what its
    steps take, and two days more."""
    if not steps or steps[-1] != 100 or any(one >= two for one, two in pairwise(steps)):
        raise wrong(
            f"falaj.steps.canary grows step by step to 100 per cent, such as (10, 50, 100), and is given {tuple(steps)}."
        )
    given = _deployment(model, to, "canary", steps[0], variant=variant)
    given["steps"] = {"shares": [round(one * _PERCENT) for one in steps], "seconds": _seconds(every)}
    answers = (ANSWER.ready > 0) & (ANSWER.ready == ANSWER.planes)
    over = ANSWER.next_step == None  # noqa: E711 - a condition is made of it
    whole = (tracing.count(ANSWER.arms) == 1) & (ANSWER.arms[0].revision == CALLED.revision)
    until = {
        "operation": "endpoint.show",
        "arguments": {"endpoint": to},
        "done": over & whole & answers,
        "failed": over & ~tracing.among(CALLED.revision, ANSWER.arms["*"].revision),
        "every": 2.0,
        "result": {"endpoint": to, "revision": CALLED.revision},
    }
    longest = len(steps) * _seconds(every) + _TO_DECIDE if timeout is None else timeout
    return operation(
        "endpoint.deploy", {**given, "reason": reason}, result="endpoint", until=until, timeout=longest, named="canary"
    )


def _deployment(
    model: Model,
    to: str,
    mode: str,
    percent: float,
    *,
    variant: Any = "",
    ladder: bool = False,
    features: Sequence[str] | None = None,
    latency_ms: int = 0,
) -> dict[str, Any]:
    if not 0 < percent <= 100:
        raise wrong(f"{percent!r} is no share of the traffic; it is per cent, up to 100.")
    given: dict[str, Any] = {
        "endpoint": to,
        **_version(model, "falaj.steps.deploy"),
        "mode": mode,
        "variant": variant,
        "ladder": ladder,
    }
    given["share"] = round(percent * _PERCENT)
    if features is not None:
        given["features"] = list(features)
    if latency_ms:
        given["options"] = {"latency_ms": latency_ms}
    return given


def abtest(
    endpoint: Handle | str,
    candidate: Handle | int | None = None,
    *,
    metric: Mapping[str, Any] | None = None,
    guardrails: Sequence[Mapping[str, Any]] = (),
    confidence: float = 0.95,
    least_effect: float = 0.0,
    days: int = 28,
    on_win: Literal["promote", "tell"] = "promote",
    on_loss: Literal["back", "tell"] = "back",
    name: str = "",
    reason: str | Handle = "",
) -> Made:
    """Holds a revision against the one that answers most, until that is decided. `candidate` is by default the revision that
    the step which deployed it hands on. It hands on the test: `test.state == "won"`, `test.sentence`."""
    if isinstance(endpoint, Handle) and candidate is None:
        must_be(endpoint, "endpoint", "falaj.steps.abtest")
        candidate = endpoint["revision"]
    if candidate is None:
        raise wrong(
            "falaj.steps.abtest needs the revision that is tested: give what falaj.steps.deploy hands on, or its number."
        )
    design = {
        "candidates": [{"revision": candidate}],
        "metric": dict(metric or {}),
        "guardrails": [dict(one) for one in guardrails],
        "confidence": confidence,
        "least_effect": least_effect,
        "days": days,
        "on_win": on_win,
        "on_loss": on_loss,
    }
    until = {
        "operation": "abtest.show",
        "arguments": {"abtest": CALLED.id},
        "done": ANSWER.state != "running",
        "every": 2.0,
    }
    given = {"endpoint": _endpoint(endpoint), "name": name, "design": design, "reason": reason}
    return operation("abtest.create", given, until=until, timeout=(days + 1) * 86_400, named="abtest")


def monitor(endpoint: Handle | str, *, reference: Data | str = "", **wishes: Any) -> Made:
    """Watches an endpoint's traffic: drift from the rows of `reference`, or from what it learns; further wishes as `falaj
    monitor apply` has them (window, floor, channels, objectives, ...)."""
    held = {"reference": _reference(reference)} if isinstance(reference, Handle) or reference else {}
    return operation("monitor.apply", {"endpoint": _endpoint(endpoint), "wishes": {**held, **wishes}}, named="monitor")


# What they share


def _how(retries: int = 0, on: Sequence[Family] = _ON, timeout: Span = "1d", cached: bool = False) -> dict[str, Any]:
    return {"retries": retries, "on": tuple(on), "seconds": _seconds(timeout), "cached": cached}


def _seconds(span: Span) -> int:
    return span if isinstance(span, int) else seconds_of(span)


def _part(thing: Any, name: str) -> Any:
    return thing[name] if isinstance(thing, Handle) else plain(thing)[name]


def _endpoint(given: Any) -> Any:
    """Its name, of whatever it is named by."""
    return _part(given, "endpoint") if kind_in(given) in ("endpoint", "any") else given


def _reference(data: Any) -> Any:
    """`flights@3`, of whatever a dataset is named by."""
    if isinstance(data, str):
        return data
    must_be(data, "dataset", "A dataset's place")
    return tracing.text(_part(data, "dataset"), "@", _part(data, "version"))


def _pinned(model: Any, what: str) -> dict[str, Any]:
    must_be(model, "model", what)
    return {"model": _part(model, "model"), "version": _part(model, "version")}


def _version(model: Any, what: str) -> dict[str, Any]:
    """Of a text, such as late:2 or late@champion, as of a version that another step hands on."""
    if isinstance(model, str):
        name, version, alias = parted(model)
        return {"model": name, "version": version, "alias": alias}
    return _pinned(model, what)
