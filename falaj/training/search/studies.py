"""What a study is, and what became of its trials. What to try next is for `searching`; when it is over, for `stopping`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.search import spaces
from falaj.training.search.spaces import Params, Space

Direction: TypeAlias = Literal["min", "max"]
State: TypeAlias = Literal["running", "complete", "pruned", "failed", "cancelled"]
SAMPLERS: Final = ("tpe", "gp", "cma", "grid", "random")
PRUNERS: Final = ("none", "asha", "median", "hyperband")
ENDED: Final = ("complete", "pruned", "failed", "cancelled")  # states of what does not run
VERSION: Final = 1
_OF_STUDY: Final = "the "  # no parameter is called so


@value
class Objective:
    metric: str
    direction: Direction = "min"

    def better(self, one: float, other: float) -> bool:
        return one < other if self.direction == "min" else one > other


@value
class Study:
    """How something is searched. None of it changes while the study lives. Before step `warmup` nothing is pruned."""

    name: str
    space: Space
    objectives: tuple[Objective, ...]
    sampler: str = "tpe"
    pruner: str = "none"
    warmup: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self)


@value
class Trial:
    """`steps` are the first objective's values on the way; `values` one for each objective, of a complete one."""

    number: int
    params: Params
    state: State = "running"
    values: tuple[float, ...] = ()
    steps: Mapping[int, float] = field(default_factory=dict)
    words: str = ""
    run: str = ""
    job: str = ""


def read_objective(text: str, direction: Direction = "min") -> Objective:
    """`val_loss`, `accuracy:max`."""
    metric, colon, way = text.rpartition(":")
    ways: dict[str, Direction] = {"min": "min", "minimise": "min", "minimize": "min"}
    ways |= {"max": "max", "maximise": "max", "maximize": "max"}
    if not colon:
        metric, found = text, direction
    elif way in ways:
        found = ways[way]
    else:
        raise Invalid(f"{text!r} says neither min nor max; write it like val_loss:min or accuracy:max.")
    if not metric:
        raise Invalid(f"{text!r} names no metric; write it like val_loss:min.")
    return Objective(metric=metric, direction=found)


def _check(study: Study) -> None:
    names, metrics = [one.name for one in study.space], [one.metric for one in study.objectives]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Invalid(f"{twice} is set twice; say all of its values at once.")
    if not metrics:
        raise Invalid("Nothing says which trial is best: name the metric, as in --metric val_loss:min.")
    if len(set(metrics)) < len(metrics):
        raise Invalid(f"A metric is named twice: {', '.join(metrics)}.")
    _check_sampler(study)
    _check_pruner(study)


def _check_sampler(study: Study) -> None:
    if study.sampler not in SAMPLERS:
        raise Invalid(f"There is no sampler {study.sampler!r}; there are {', '.join(SAMPLERS)}.")
    if study.sampler == "cma" and len(study.objectives) > 1:
        raise Invalid("CMA-ES goes by one metric; take tpe or gp for several.")
    if study.sampler == "cma" and all(one.kind == "choice" for one in study.space):
        raise Invalid("CMA-ES searches numbers, and every parameter here is a choice; take tpe or grid.")
    if study.sampler == "grid":
        spaces.grid_size(study.space)


def _check_pruner(study: Study) -> None:
    if study.pruner not in PRUNERS:
        raise Invalid(f"There is no pruner {study.pruner!r}; there are {', '.join(PRUNERS)}.")
    if study.warmup < 0 or (study.warmup and study.pruner == "none"):
        raise Invalid("A warm-up is a number of steps before anything is pruned; name a pruner with it.")
    if study.pruner != "none" and len(study.objectives) > 1:
        raise Invalid("Trials with several metrics cannot be pruned: which of two is worse, one metric alone does not say.")


def as_document(study: Study) -> dict[str, Any]:
    return {
        "version": VERSION,
        "space": spaces.as_document(study.space),
        "objectives": [[one.metric, one.direction] for one in study.objectives],
        "sampler": study.sampler,
        "pruner": study.pruner,
        "warmup": study.warmup,
        "seed": study.seed,
    }


def from_document(name: str, document: Mapping[str, Any]) -> Study:
    if document.get("version") != VERSION:
        raise Invalid(f"The study {name!r} was made by another version of Falaj: it says version {document.get('version')!r}.")
    if not all(type(document[name]) is int for name in ("warmup", "seed")):
        raise Invalid(f"The study {name!r} says a warm-up or a seed that is no whole number.")
    if not all(type(metric) is str and way in ("min", "max") for metric, way in document["objectives"]):
        raise Invalid(f"The study {name!r} says an objective that is none.")
    return Study(
        name=name,
        space=spaces.from_document(document["space"]),
        objectives=tuple(Objective(metric=metric, direction=way) for metric, way in document["objectives"]),
        sampler=document["sampler"],
        pruner=document["pruner"],
        warmup=document["warmup"],
        seed=document["seed"],
    )


def differences(now: Study, before: Study) -> list[str]:
    """In words, what a study is asked for by `now` and was not `before`, or the other way round."""
    were, are = (_said(study) for study in (before, now))
    parameters_first = sorted(were | are, key=lambda name: name.startswith(_OF_STUDY))
    return [changed(name, were.get(name), are.get(name)) for name in parameters_first if were.get(name) != are.get(name)]


def changed(name: str, was: Any, now: Any) -> str:
    """None where it was not said."""
    if was is None:
        return f"{name} was not set, and is now {now}"
    return f"{name} was {was}, and is not set now" if now is None else f"{name} was {was}, and is now {now}"


def _said(study: Study) -> dict[str, Any]:
    goals = ", ".join(f"{each.metric}:{each.direction}" for each in study.objectives)
    rest = {"metric": goals} | {name: getattr(study, name) for name in ("sampler", "pruner", "warmup", "seed")}
    return {each.name: each.told() for each in study.space} | {f"{_OF_STUDY}{name}": said for name, said in rest.items()}


def finite(values: Iterable[float]) -> bool:
    return all(map(math.isfinite, values))


def front(objectives: Sequence[Objective], trials: Iterable[Trial]) -> list[Trial]:
    """The complete trials that no other beats in everything: of one metric the best, the earliest where several are."""
    complete = [one for one in trials if one.state == "complete" and finite(one.values)]
    signs = [1 if each.direction == "min" else -1 for each in objectives]
    costs = {one.number: tuple(sign * at for sign, at in zip(signs, one.values, strict=True)) for one in complete}
    if len(signs) == 1:
        return sorted(complete, key=lambda one: (costs[one.number], one.number))[:1]
    kept: list[Trial] = []
    for one in sorted(complete, key=lambda each: (costs[each.number], each.number)):
        if not any(_beats(costs[other.number], costs[one.number]) for other in kept):
            kept.append(one)
    return kept


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))
