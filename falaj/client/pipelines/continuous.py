"""Training that goes on: from rows to a watched endpoint, and again when there are new rows or they drift. A project's own are
three steps, which get the rows, train, and measure; how far things go is said in a short TOML file.

`falaj init` makes a project of it.
"""

import json
import tomllib
from collections.abc import Callable
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from falaj.base.errors import Invalid
from falaj.base.spans import seconds_of
from falaj.base.values import Message, value
from falaj.client.pipelines import steps
from falaj.client.pipelines.handles import Made, Root
from falaj.client.pipelines.places import wrong
from falaj.client.pipelines.tracing import among, text, when, within
from falaj.lifecycle.operations.triggers import Trigger, name_of
from falaj.lifecycle.wishes import check_wish
from falaj.registry.operations.words import BROUGHT_OUT
from falaj.wire.wording import in_words

ALIAS: Final = "champion"


@value
class Better(Message):
    """A version goes on where `metric`, of which more is better, is at least `least`, and is surely at least `gain` more than
    the champion's. A `gain` below nothing lets it be a little worse: no rows can show that it is no worse at all."""

    metric: str
    least: float = 0.0
    gain: float = 0.0


@value
class Small(Message):
    """How much worse than the original a smaller form may be, over all and in each slice; after how many `seconds` no more of
    them are tried."""

    max_drop: float = 0.005
    max_slice_drop: float = 0.02
    slices: tuple[str, ...] = ()
    seconds: int = 300


@value
class Canary(Message):
    """Per cent of the traffic, each held for `every`."""

    steps: tuple[float, ...] = (10.0, 50.0, 100.0)
    every: str = "5m"


@value
class Watch(Message):
    """As `falaj monitor apply` has it."""

    window: int = 60
    floor: float = 0.1
    channels: tuple[str, ...] = ()


@value
class Again(Message):
    """What starts it by itself: a time, alerts of drift of its endpoint, new versions of `datasets`."""

    cron: str = ""
    zone: str = "UTC"
    drift: bool = True
    datasets: tuple[str, ...] = ()
    pause: str = "1h"


@value
class Settings(Message):
    """- `label` is the column that is predicted. `features`: a SELECT over the rows, where they are not trained on as they are.
    - `held_out`: this share of them, or those of which this SQL holds, is kept from training: versions are judged on these.
    - `train`: what training is given besides rows.
    - `small`: left out, the model is served as it was trained. `gates`: their names; `approval`: somebody has to agree.
    - `again`: left out, nothing starts it by itself.
    """

    model: str
    endpoint: str
    label: str
    better: Better
    features: str = ""
    held_out: float | str = 0.3
    small: Small | None = None
    gates: tuple[str, ...] = ()
    approval: bool = True
    canary: Canary = Canary()
    watch: Watch = Watch()
    train: dict[str, Any] = field(default_factory=dict)
    again: Again | None = None


def settings_in(file: Path) -> Settings:
    """Raises `Invalid` with what is wrong in the file."""
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Invalid(f"There is no file {file}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{file} cannot be read as TOML: {error}.") from None
    try:
        found: Settings = TypeAdapter(Settings).validate_json(json.dumps(told, default=str))
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "unexpected_keyword_argument":
            known = ", ".join(field.name for field in fields(Settings))
            raise Invalid(f"{file} has {place!r}, which means nothing here; there are {known}, and what they hold.") from None
        raise Invalid(f"{file}: {place} {in_words(first) or first['msg']}.") from None
    return found


def continuous(
    file: str,
    *,
    rows: Callable[[], Any],
    train: Callable[..., Any],
    evaluate: Callable[[Any, Any], Any],
) -> dict[str, Any]:
    """To be called in the function of a pipeline. `file` is the TOML file, in the pipeline's folder.

    `rows` hands on a DatasetVersion, `train` makes a ModelVersion of one, and `evaluate` is given both and returns what
    `against_champion` does: of rows that training is not given.
    """
    now = within("falaj.continuous")
    try:
        wished = settings_in(now.root / file)
    except Invalid as error:
        raise wrong(str(error)) from None
    taken = steps.check(rows().named(f"{wished.model}-rows"))
    if wished.features:
        taken = steps.derive(f"{wished.model}-features", wished.features, inputs=[taken])
    seen, unseen = _parted(wished, taken)
    model = train(seen, **wished.train)
    judged = evaluate(model, unseen)
    metric = wished.better.metric
    good = (judged["figures"][metric] >= wished.better.least) & (judged["surely"][metric] >= wished.better.gain)
    with when(judged["is_new"] & good):
        _brought_out(wished, model, taken=taken, seen=seen, unseen=unseen, judged=judged)
    now.starts = {**(now.starts or {}), **({} if wished.again is None else _starts(wished.again, wished.endpoint))}
    return {"model": model, "figures": judged["figures"], "gain": judged["gain"]}


def _starts(again: Again, endpoint: str) -> dict[str, Trigger]:
    """By the triggers' names."""
    try:
        pause = seconds_of(again.pause)
    except Invalid as error:
        raise wrong(f"again.pause: {error}") from None
    found = [Trigger(kind="dataset", about=name, pause=pause) for name in again.datasets]
    if again.cron:
        schedule = Trigger(kind="schedule", cron=again.cron, zone=again.zone, pause=pause)
        try:
            check_wish(schedule)  # before the version and its gates are there, and it is refused
        except Invalid as error:
            raise wrong(f"again: {error}") from None
        found.append(schedule)
    if again.drift:
        found.append(Trigger(kind="drift", about=endpoint, pause=pause))
    return {name_of(one): one for one in found}


def _parted(wished: Settings, taken: Made) -> tuple[Made, Made]:
    """What is trained on, and what is held out. Of a share, a row's own content says to which it belongs: equal rows stay
    together, and what was held out before is not trained on later."""
    apart = wished.held_out
    if not isinstance(apart, str):
        if not 0.001 <= apart <= 0.999:
            raise wrong(f"held_out is a share of the rows, such as 0.3, or a condition in SQL; {apart:g} is neither.")
        apart = f"md5_number_upper(CAST(one AS VARCHAR)) % 1000 < {round(apart * 1000)}"
    every = text('SELECT * FROM "', taken.dataset, '" AS one WHERE (', f"{apart}) IS ")
    unseen = steps.derive(f"{wished.model}-held-out", text(every, "TRUE"), inputs=[taken])
    return steps.derive(f"{wished.model}-seen", text(every, "NOT TRUE"), inputs=[taken]).after(unseen), unseen


def _brought_out(wished: Settings, model: Any, *, taken: Made, seen: Made, unseen: Made, judged: Any) -> None:
    """What is better: made small, through its gates, agreed to, beside the old one first, watched, and then in its place.

    From the first question on it is marked: what was refused or went back is not brought out again of the same rows.
    Whether the alias may move is settled before anything answers: where policy wants approvals for that, they are the question,
    and nobody is asked a second one.
    """
    metric = wished.better.metric
    found = text(metric, " ", judged["told"][metric])
    passed: Any = model
    variant: Any = ""
    if (small := wished.small) is not None:
        passed = steps.optimise(
            model,
            on=seen,
            held_out=unseen,
            label=wished.label,
            slices=small.slices,
            max_drop=small.max_drop,
            max_slice_drop=small.max_slice_drop,
            seconds=small.seconds,
            certify=1,  # which answers; the search begins with the most promising
        )
        variant = passed["variant"]
    if wished.gates:  # of what was made small, too
        passed = steps.run_gates(passed, *wished.gates)
    tag = {"model": passed["model"], "version": passed["version"], "key": BROUGHT_OUT, "value": Root(("run",))}
    marked = steps.operation("version.tag", tag, named="mark")
    cleared: Any = steps.clear(passed, alias=ALIAS, reason=found)
    before = [cleared.after(marked)]
    if wished.approval:
        with when(~among(cleared["state"], ["ready", "used"])):
            before += [steps.approval(text("Shall version ", model.version, f" of {wished.model} answer? Its ", found, "."))]
    grown = steps.canary(
        passed, to=wished.endpoint, steps=wished.canary.steps, every=wished.canary.every, variant=variant, reason=found
    ).after(*before)
    watch = {"window": wished.watch.window, "floor": wished.watch.floor, "channels": list(wished.watch.channels)}
    watched = steps.monitor(grown, reference=taken, **watch)
    steps.promote(passed, alias=ALIAS, reason=found).after(watched)
