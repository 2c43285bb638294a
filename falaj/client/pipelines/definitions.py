"""`@falaj.pipeline`: the function that says which steps there are, and the definition that comes of it."""

import inspect
import json
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, TypeVar

from falaj.base.errors import FalajError, Invalid
from falaj.client.pipelines.handles import Combined, Handle, Made, Parameter, Recorded, handles_in, kind_in, written
from falaj.client.pipelines.kinds import THINGS, goes_for, kind_of, plain, told
from falaj.client.pipelines.places import Place, wrong
from falaj.client.pipelines.tracing import Tracing, tracing, written_down
from falaj.lifecycle.operations.triggers import Trigger
from falaj.lifecycle.operations.words import MOST_STEPS, Definition, Step, Until
from falaj.lifecycle.operations.words import Parameter as Declared

P = ParamSpec("P")
R = TypeVar("R")
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,99}")
_LONGEST: Final = 2000


class PipelineFunction(Generic[P, R]):
    """Runs nowhere by itself: `falaj pipeline` writes it down. Called in another pipeline, its steps are that one's."""

    def __init__(self, function: Callable[P, R], name: str) -> None:
        self.function, self.name = function, name
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.place = Place(file=function.__code__.co_filename, line=function.__code__.co_firstlineno)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        if tracing() is None:
            raise wrong(f"{self.__name__} is a pipeline: run it with `falaj pipeline run {Path(self.place.file).name}`.")
        return self.function(*arguments, **named)

    @property
    def words(self) -> str:
        """The first paragraph of what it says about itself."""
        return " ".join(inspect.cleandoc(self.__doc__ or "").split("\n\n")[0].split())[:_LONGEST]

    def parameters(self) -> tuple[Declared, ...]:
        try:
            asked = inspect.signature(self.function, eval_str=True).parameters
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            raise wrong(f"The annotations of {self.__name__} mean nothing here: {error}.", self.place) from None
        return tuple(self._parameter(one) for one in asked.values())

    def _parameter(self, one: inspect.Parameter) -> Declared:
        if one.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise wrong(f"{self.__name__} takes {one}; the parameters of a pipeline have to be named one by one.", self.place)
        try:
            kind = kind_of(one.annotation)
        except Invalid as error:
            raise wrong(f"{self.__name__}, {one.name}: {error}", self.place) from None
        if one.default is inspect.Parameter.empty:
            return Declared(name=one.name, kind=kind, required=True)
        default = plain(one.default)
        named = kind in THINGS and isinstance(default, str)  # such as "flights"; which version that is, is seen at the start
        if not named and default is not None and not goes_for(kind_in(one.default), kind):
            raise wrong(
                f"{self.__name__}, {one.name}: it is said to be {told(kind)}, and is {default!r} by default.", self.place
            )
        return Declared(name=one.name, kind=kind, default=written(default))

    def defined(self, root: Path, source: str, data: str) -> tuple[Definition, dict[str, Trigger] | None]:
        """Calls the function, once. With what shall start it by itself. Raises `Invalid` with the line where something is
        wrong."""

        parameters = self.parameters()
        given = {one.name: Parameter(one.name, one.kind) for one in parameters}
        with written_down(root, source, data) as now:
            try:
                handed_on = self.function(**given)  # type: ignore[call-arg, arg-type]
                result = written(handed_on)
            except FalajError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever users write may raise whatever
                raise Invalid(f"{_line_of(error, root)}: {type(error).__name__}: {error}") from None
        _check(self, now)
        made = Definition(
            parameters=parameters,
            steps=tuple(_step(one) for one in now.steps),
            source=source if any(_needs_source(one) for one in now.steps) else "",
            result=result,
            words=self.words,
        )
        return made, now.starts


def pipeline(function: Callable[P, R] | None = None, /, *, name: str = "") -> Any:
    """The function of a pipeline: the steps that it calls are the pipeline's, its arguments are what may be said at the start,
    and what it returns is what a run hands on. `name` is by default the function's, with dashes."""

    def made(given: Callable[P, R]) -> PipelineFunction[P, R]:
        return PipelineFunction(given, name or given.__name__.lower().strip("_").replace("_", "-"))

    return made if function is None else made(function)


def _needs_source(one: Recorded) -> bool:
    return one.kind == "function" or "source" in one.arguments or "source" in (one.arguments.get("spec") or {})


def _step(one: Recorded) -> Step:
    conditions = [written(condition) for condition in one.when]
    return Step(
        name=one.name,
        kind=one.kind,  # type: ignore[arg-type]
        arguments=written(one.arguments),
        result=one.result,
        after=tuple(dict.fromkeys(before.name for before in (*one.after, *one.held))),
        when=True if not conditions else conditions[0] if len(conditions) == 1 else {"$": "and", "of": conditions},
        each=None if one.each is None else written(one.each),
        until=None if one.until is None else Until(**{name: written(given) for name, given in one.until.items()}),
        **one.more,
    )


def _check(pipeline: PipelineFunction[Any, Any], now: Tracing) -> None:
    if not now.steps:
        raise wrong(f"{pipeline.__name__} calls no step: functions with @falaj.step, or some of falaj.steps.", pipeline.place)
    if len(now.steps) > MOST_STEPS:
        words = f"{pipeline.__name__} has {len(now.steps):,} steps; {MOST_STEPS} is the most. falaj.each does one for many."
        raise wrong(words, pipeline.place)
    seen: dict[str, Recorded] = {}
    for one in now.steps:
        if not _NAME.fullmatch(one.name):
            words = f"{one.name!r} is no name of a step: it has small letters, digits, '_' and '-', and begins with a letter."
            raise wrong(words, one.named or one.place)
        if (other := seen.setdefault(one.name, one)) is not one:
            raise wrong(f"Two steps are called {one.name!r}; the other is in {other.place}.", one.named or one.place)
    _check_order(now.steps)
    _check_reach(now.steps)


def needs_of(one: Recorded, *, optional: bool = True) -> list[Recorded]:
    """What has to be over before it; without those of which the first that was not skipped is taken, where asked so."""
    spoken = [one.arguments, one.each, one.until, *one.when]
    found = [handle for given in spoken for handle in (handles_in(given) if optional else _certain(given))]
    return [*(handle._recorded for handle in found if isinstance(handle, Made)), *one.after, *one.held]


def _certain(given: Any) -> list[Handle]:
    if isinstance(given, Combined):
        return [] if given._operator == "first" else [found for one in given._of for found in _certain(one)]
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, list | tuple):
        return [found for one in given for found in _certain(one)]
    return [given] if isinstance(given, Handle) else []


def _check_order(steps: Iterable[Recorded]) -> None:
    """What `after` can bring about: that steps wait for each other."""
    left = {id(one): one for one in steps}
    while left:
        ready = [one for one in left.values() if not any(id(before) in left for before in needs_of(one))]
        if not ready:
            first = next(one for one in left.values() if any(id(before) in left for before in one.after))
            names = ", ".join(one.name for one in left.values())
            words = f"These steps wait for each other: {names}. `.after(...)` makes them, or an approval written above."
            raise wrong(words, first.named or first.place)
        for one in ready:
            del left[id(one)]


def _check_reach(steps: Iterable[Recorded]) -> None:
    """A step that needs what is done only where something holds, and what is done only where it does not, is never done."""
    holds: dict[int, set[str]] = {}
    for one in _in_order(steps):
        own = {json.dumps(written(condition), sort_keys=True) for condition in one.when}
        for before in needs_of(one, optional=False):
            own |= holds[id(before)]
        if "false" in own or any(_negated(condition) in own for condition in own):
            raise wrong(f"Nothing can reach the step {one.name!r}: what it needs is never done together.", one.place)
        holds[id(one)] = own


def _in_order(steps: Iterable[Recorded]) -> list[Recorded]:
    left, order = list(steps), list[Recorded]()
    while left:
        ready = [one for one in left if not any(before in left for before in needs_of(one))]
        order += ready
        left = [one for one in left if one not in ready]
    return order


def _negated(condition: str) -> str:
    return json.dumps({"$": "not", "of": [json.loads(condition)]}, sort_keys=True)


def _line_of(error: BaseException, root: Path) -> str:
    frames = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).is_relative_to(root)]
    return str(Place(file=frames[-1].filename, line=frames[-1].lineno or 0)) if frames else "The pipeline"
