"""`@falaj.step`: a function of the user's that a pipeline runs in a job of its own."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

import falaj
from falaj.base.errors import Invalid
from falaj.base.memory import mib_of
from falaj.base.spans import seconds_of
from falaj.base.values import value
from falaj.client.pipelines.handles import Made, must_be
from falaj.client.pipelines.kinds import kind_of, told
from falaj.client.pipelines.places import Place, wrong
from falaj.client.pipelines.sources import code_of
from falaj.client.pipelines.tracing import Tracing, tracing
from falaj.jobs.operations.words import Resources
from falaj.lifecycle.operations.words import Family, Function, Kind

P = ParamSpec("P")
R = TypeVar("R")
_ON: Final[tuple[Family, ...]] = ("temporary", "timeout", "lost")
_LONGEST: Final = 2000
_FALAJ: Final = re.compile(r"^\s*falaj\b", re.MULTILINE | re.IGNORECASE)
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@value
class Wishes:
    """What a step asks for with its job, and how it is done. `lock` is the way to a file beside the step's own."""

    lock: str
    image: str
    resources: Resources
    queue: str
    permissions: tuple[str, ...]
    secrets: tuple[str, ...]
    hosts: tuple[str, ...]
    experiment: str
    how: Mapping[str, Any]


class StepFunction(Generic[P, R]):
    """Called in a pipeline it is recorded; called anywhere else, as in a test, it is the function."""

    def __init__(self, function: Callable[P, R], wishes: Wishes) -> None:
        self.function, self.wishes = function, wishes
        functools.update_wrapper(self, function)
        self.place = Place(file=function.__code__.co_filename, line=function.__code__.co_firstlineno)
        for one in inspect.signature(function).parameters.values():
            if one.kind not in _NAMED:
                raise wrong(f"The step {function.__name__} takes {one}; its arguments have to be named one by one.", self.place)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        now = tracing()
        if now is None:
            return self.function(*arguments, **named)
        return self._recorded(now, arguments, named)  # type: ignore[return-value]

    @functools.cached_property
    def kinds(self) -> dict[str, Kind]:
        """Of its arguments, by its annotations."""
        return {name: self._kind(one.annotation, name) for name, one in self._signature.parameters.items()}

    @functools.cached_property
    def result(self) -> Kind:
        given = self._signature.return_annotation
        return "any" if given is inspect.Signature.empty else self._kind(given, "what it hands on")

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        try:
            return inspect.signature(self.function, eval_str=True)
        except (NameError, AttributeError, TypeError, SyntaxError) as error:
            raise wrong(f"The annotations of {self.function.__name__} mean nothing here: {error}.", self.place) from None

    def _kind(self, annotation: Any, what: str) -> Kind:
        try:
            return kind_of(annotation)
        except Invalid as error:
            raise wrong(f"{self.function.__name__}, {what}: {error}", self.place) from None

    def _recorded(self, now: Tracing, arguments: Sequence[Any], named: Mapping[str, Any]) -> Made:
        name = self.function.__name__
        try:
            given = self._signature.bind(*arguments, **named).arguments
        except TypeError as error:
            takes = ", ".join(f"{argument} ({told(kind)})" for argument, kind in self.kinds.items())
            raise wrong(f"{name}: {error}; it takes {takes or 'nothing'}.") from None
        for argument, one in given.items():
            must_be(one, self.kinds[argument], f"{name}({argument}=...)")
        words = " ".join(inspect.cleandoc(self.function.__doc__ or "").split("\n\n")[0].split())[:_LONGEST]
        made = self._function(now)
        return now.record(name, "function", self.result, given, function=made, words=words, **self.wishes.how)

    def _function(self, now: Tracing) -> Function:
        """Raises `Invalid` where a job could not find it."""
        function, wishes = self.function, self.wishes
        file = Path(self.place.file).resolve()
        if not file.is_relative_to(now.root):
            raise wrong(
                f"The step {function.__name__} is in {file}, outside of {now.root}, which is what goes along: put it into a "
                "file of that folder, or name a folder that has both with --source."
            )
        if function.__qualname__ != function.__name__ or function.__globals__.get(function.__name__) is not self:
            raise wrong(
                f"The step {function.__qualname__} does not stand by its name in its file, so that no job could find it."
            )
        return Function(
            file=file.relative_to(now.root).as_posix(),
            name=function.__name__,
            code=code_of(now.root, file, now.data),
            lock=self._lock(file),
            image=wishes.image,
            resources=wishes.resources,
            queue=wishes.queue,
            permissions=wishes.permissions,
            secrets=wishes.secrets,
            hosts=wishes.hosts,
            experiment=wishes.experiment,
        )

    def _lock(self, file: Path) -> str:
        if not self.wishes.lock:
            return ""
        try:
            text = (file.parent / self.wishes.lock).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no UTF-8"
            raise wrong(f"The lock {self.wishes.lock} of the step {self.function.__name__} cannot be read: {why}.") from None
        if not _FALAJ.search(text):
            raise wrong(
                f"The lock {self.wishes.lock} of the step {self.function.__name__} does not name falaj, which runs it: add "
                f"falaj=={falaj.__version__}, or leave the lock out to have the platform's own libraries."
            )
        return text


@overload
def step(function: Callable[P, R], /) -> StepFunction[P, R]: ...
@overload
def step(
    *,
    cpus: float = 1.0,
    memory: str = "1GiB",
    gpus: float = 0.0,
    gpu_models: Sequence[str] = (),
    lock: str = "",
    image: str = "",
    queue: str = "",
    retries: int = 0,
    on: Sequence[Family] = _ON,
    timeout: str | int = "1d",
    cached: bool = False,
    at_once: int = 16,
    permissions: Sequence[str] = (),
    secrets: Sequence[str] = (),
    hosts: Sequence[str] = (),
    experiment: str = "",
) -> Callable[[Callable[P, R]], StepFunction[P, R]]: ...
def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    cpus: float = 1.0,
    memory: str = "1GiB",
    gpus: float = 0.0,
    gpu_models: Sequence[str] = (),
    lock: str = "",
    image: str = "",
    queue: str = "",
    retries: int = 0,
    on: Sequence[Family] = _ON,
    timeout: str | int = "1d",
    cached: bool = False,
    at_once: int = 16,
    permissions: Sequence[str] = (),
    secrets: Sequence[str] = (),
    hosts: Sequence[str] = (),
    experiment: str = "",
) -> Any:
    """A step that a job does: the function, with the arguments that the pipeline gives it, in the environment that it asks for.

    - `lock` is a requirements file beside it, `image` a container image; without both it has the platform's own libraries.
    - `retries`: after failures of the families in `on`: `temporary` (the network, or `falaj.TemporaryError`), `permanent` (any
      other exception), `timeout`, `lost` (the host, or no memory). `timeout` is of one try, such as "2h".
    - `cached`: with the same code, other files, arguments and environment, what it handed on before is taken.
    - `permissions` are what its token may do; what a training needs where they are left out. `experiment`: it has a run there.
    - `at_once`: of a fan-out, so many side by side.
    """
    wishes = Wishes(
        lock=lock,
        image=image,
        resources=Resources(cpus=float(cpus), memory_mib=mib_of(memory), gpus=float(gpus), gpu_models=tuple(gpu_models)),
        queue=queue,
        permissions=tuple(permissions),
        secrets=tuple(secrets),
        hosts=tuple(hosts),
        experiment=experiment,
        how={
            "retries": retries,
            "on": tuple(on),
            "seconds": timeout if isinstance(timeout, int) else seconds_of(timeout),
            "cached": cached,
            "at_once": at_once,
        },
    )
    return StepFunction(function, wishes) if function is not None else functools.partial(StepFunction, wishes=wishes)
