"""Whether a pipeline can be run at all, said before anything runs: names, order, kinds, and what operations want. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.base.operation import Download, Group, Operation, Record, Scope
from falaj.base.values import Secret, marks, value
from falaj.lifecycle.expressions import MARK, Reference, references
from falaj.lifecycle.operations.words import Definition, Kind, Parameter, Step

_NOT_FOR_STEPS: Final = (Group.PUBLIC, Group.SELF, Group.ADMINISTER)
_HARMLESS: Final = ("version.verify",)  # of sensitive reads
_TELLING: Final = ("job.log",)  # of plain reads: whatever a job wrote
_IN_UNTIL: Final = ("called", "answer")
_PLAIN: Final[Mapping[str, tuple[type, ...]]] = {
    "text": (str,),
    "whole": (int,),
    "number": (int, float),
    "flag": (bool,),
    "list": (list, tuple),
    "nothing": (type(None),),
}
# What things are written like; the first field tells them apart.
THINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "dataset": ("dataset", "version"),
    "run": ("run",),
    "model": ("model", "version"),
    "endpoint": ("endpoint",),
}


@value
class Catalogue:
    """`operations` are those that steps may call, by name. `needing` has one operation for each permission that a function's
    job may be given: by which one asks whether somebody has it."""

    operations: Mapping[str, Operation[Any, Any]]
    needing: Mapping[str, Operation[Any, Any]]


def catalogue_of(operations: Iterable[Operation[Any, Any]]) -> Catalogue:
    """Steps may call what is of a project, is told and answered as JSON, and is not about who may do what. Both are kept with
    the run: so nothing that is told or answers secrets, or answers with values of data."""
    there = [one for one in operations if one.scope is Scope.PROJECT and one.permission.group not in _NOT_FOR_STEPS]
    return Catalogue(
        operations={one.name: one for one in there if _is_for_steps(one)},
        needing={one.permission.name: one for one in reversed(there)},
    )


def _is_for_steps(one: Operation[Any, Any]) -> bool:
    shows = (one.record is Record.SENSITIVE_READ and one.name not in _HARMLESS) or one.name in _TELLING
    return not one.takes_bytes and one.result is not Download and not shows and not _has_secrets(one)


def _has_secrets(one: Operation[Any, Any]) -> bool:
    kinds: tuple[Any, ...] = (one.request, one.result)
    told = [mark for kind in kinds for field in fields(kind) for mark in marks(kind, field.name)]
    return any(isinstance(mark, Secret) or mark is Secret for mark in told)


def check(definition: Definition, catalogue: Catalogue) -> None:
    """Raises `Invalid` with the step and what is wrong with it."""
    _check_names(definition)
    steps = {step.name: step for step in definition.steps}
    parameters = {one.name for one in definition.parameters}
    for step in definition.steps:
        try:
            _check_step(step, steps, parameters, catalogue)
        except Invalid as error:
            raise Invalid(f"Step {step.name!r}: {error}") from None
    for reference in references(definition.result):
        _check_reference(reference, steps, parameters, more=("run",))
    order_of(definition)
    if any(step.function for step in definition.steps) and not definition.source:
        raise Invalid("It has functions, and no source that they are in; send the files first (job.upload-source).")


def order_of(definition: Definition) -> tuple[str, ...]:
    """Each step behind all that it needs. Raises `Invalid` where some need each other."""
    names = [step.name for step in definition.steps]
    left: dict[str, int] = {}  # how many of those that it needs do not stand before it yet
    needed_by: dict[str, list[str]] = {name: [] for name in names}
    for step in definition.steps:
        before = needs_of(step) & needed_by.keys()
        left[step.name] = len(before)
        for name in before:
            needed_by[name].append(step.name)
    order: list[str] = []
    ready = [name for name in names if not left[name]]
    while ready:
        order += ready
        for name in ready:
            del left[name]
            for behind in needed_by[name]:
                left[behind] -= 1
        touched = {behind for name in ready for behind in needed_by[name] if not left[behind]}
        ready = [name for name in left if name in touched]
    if left:
        raise Invalid(f"These steps wait for each other: {', '.join(sorted(left))}.")
    return tuple(order)


def needs_of(step: Step) -> set[str]:
    """The steps that have to be over before it."""
    return {reference.step for reference in spoken_of(step) if reference.step} | set(step.after)


def spoken_of(step: Step) -> tuple[Reference, ...]:
    until = () if step.until is None else (step.until.arguments, step.until.done, step.until.failed, step.until.result)
    return tuple(references([step.arguments, step.when, step.each, *until]))


def before(definition: Definition, wanted: Iterable[str]) -> set[str]:
    """These steps, and all that they need."""
    needs = {step.name: needs_of(step) for step in definition.steps}
    found, open_ = set[str](), list(wanted)
    while open_:
        if (name := open_.pop()) not in found:
            found.add(name)
            open_ += needs.get(name, ())
    return found


def behind(definition: Definition, first: str) -> set[str]:
    """This step, and all that need it."""
    found = {first}
    for name in order_of(definition):
        step = next(one for one in definition.steps if one.name == name)
        if needs_of(step) & found:
            found.add(name)
    return found


def is_of_kind(given: Any, kind: Kind) -> bool:
    if kind == "any":
        return True
    if wanted := THINGS.get(kind):
        return isinstance(given, Mapping) and set(wanted) <= set(given) and all(_names(given[name]) for name in wanted)
    if isinstance(given, bool):
        return kind == "flag"
    return isinstance(given, _PLAIN[kind])


def _names(given: Any) -> bool:
    return isinstance(given, str | int) and not isinstance(given, bool) and bool(given)


def given_parameters(definition: Definition, given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters, those that were not given as they are by default."""
    known = {one.name: one for one in definition.parameters}
    if unknown := sorted(given.keys() - known.keys()):
        raise Invalid(f"It has no parameter {unknown[0]!r}; it has {', '.join(known) or 'none'}.")
    if missing := sorted(name for name, one in known.items() if one.required and name not in given):
        raise Invalid(f"It needs the parameter {missing[0]!r}.")
    return {name: _parameter(one, given.get(name, one.default)) for name, one in known.items()}


def _parameter(one: Parameter, given: Any) -> Any:
    """A thing may be named as people do: `flights`, `flights@3`, `late:2`; what that is now, is looked up by whoever starts."""
    if one.kind in THINGS and isinstance(given, str):
        return given
    if given is None and not one.required:
        return None
    if not is_of_kind(given, one.kind):
        raise Invalid(f"The parameter {one.name!r} is {str(given)[:100]!r}, which is not of the kind {one.kind!r}.")
    return given


def _check_names(definition: Definition) -> None:
    for what, names in (
        ("step", [step.name for step in definition.steps]),
        ("parameter", [one.name for one in definition.parameters]),
    ):
        if double := next((name for name in names if names.count(name) > 1), ""):
            raise Invalid(f"Two {what}s are called {double!r}.")
    for one in definition.parameters:
        if any(references(one.default)):
            raise Invalid(f"The parameter {one.name!r} cannot refer to something else.")
        if one.default is not None:
            _parameter(one, one.default)


def _check_step(step: Step, steps: Mapping[str, Step], parameters: set[str], catalogue: Catalogue) -> None:
    _check_parts(step, catalogue)
    for name in step.after:
        if name not in steps:
            raise Invalid(f"it is to come after {name!r}, which there is not.")
    more = ("run", "item") if step.each is not None else ("run",)
    for reference in references([step.arguments, step.when, step.each]):
        _check_reference(reference, steps, parameters, more)
    if step.until is not None:
        for reference in references([step.until.arguments, step.until.done, step.until.failed, step.until.result]):
            _check_reference(reference, steps, parameters, (*more, *_IN_UNTIL))
    if step.name in needs_of(step):
        raise Invalid("it speaks of itself.")


def _check_reference(reference: Reference, steps: Mapping[str, Step], parameters: set[str], more: tuple[str, ...]) -> None:
    root, *rest = reference.path
    way = ".".join(reference.path)
    if root == "steps" and (not rest or rest[0] not in steps):
        raise Invalid(f"{way} speaks of a step that there is not; there are {', '.join(steps)}.")
    if root == "parameters" and (not rest or rest[0] not in parameters):
        raise Invalid(f"{way} speaks of a parameter that there is not; there are {', '.join(sorted(parameters)) or 'none'}.")
    if root not in ("steps", "parameters", *more):
        raise Invalid(f"{way} means nothing here.")


def _check_parts(step: Step, catalogue: Catalogue) -> None:
    """Each kind has what it is made of, and nothing of another."""
    wanted = {"function": "function", "operation": "operation"}
    for kind, part in wanted.items():
        if bool(getattr(step, part)) is not (step.kind == kind):
            raise Invalid(f"it is of the kind {step.kind!r}, which {'needs' if step.kind == kind else 'has no'} `{part}`.")
    for wrong, why in _misfits(step):
        if wrong:
            raise Invalid(why)
    if step.kind == "operation":
        check_request(required(catalogue, step.operation), step.arguments)
    if step.until is not None:
        asked = required(catalogue, step.until.operation)
        if asked.method != "GET":
            raise Invalid(f"{asked.name} changes something, and is not for being asked again and again.")
        check_request(asked, step.until.arguments)


def _misfits(step: Step) -> Iterable[tuple[bool, str]]:
    """What may be wrong with a step of this kind, and the words for it."""
    given = set(step.arguments)
    asks = bool(step.question) + (step.kind == "approval" and "question" in given)
    yield asks != (step.kind == "approval"), "an approval, and nothing else, has a `question`: as it is, or as its argument."
    yield step.kind == "approval" and bool(given - {"question"}), "an approval has no other argument than its `question`."
    yield step.kind != "operation" and step.until is not None, "only an operation has `until`."
    yield step.kind == "value" and given != {"value"}, "a value has one argument, `value`."
    waits_twice = bool(given - {"seconds"}) or bool(step.event) is ("seconds" in given)
    yield step.kind == "wait" and waits_twice, "it waits either for an `event`, or for as many `seconds` as its argument says."
    yield step.kind != "wait" and bool(step.event), "only what waits has an `event`."


def required(catalogue: Catalogue, name: str) -> Operation[Any, Any]:
    if (found := catalogue.operations.get(name)) is None:
        raise Invalid(f"{name[:100]!r} is no operation that a step can call; docs/reference.md has those of projects.")
    return found


def check_request(operation: Operation[Any, Any], arguments: Mapping[str, Any]) -> None:
    """By its fields; what they hold is known once it is called."""
    if MARK in arguments:
        raise Invalid("arguments are named; only what they are may be referred to.")
    known = {field.name: field for field in fields(operation.request)}
    if unknown := sorted(arguments.keys() - known.keys()):
        raise Invalid(f"{operation.name} has no {unknown[0]!r}; it has {', '.join(known)}.")
    needed = {name for name, field in known.items() if field.default is MISSING and field.default_factory is MISSING} - {
        "project"
    }
    if missing := sorted(needed - arguments.keys()):
        raise Invalid(f"{operation.name} needs {missing[0]!r}.")
