"""What a monitor is to do, as people write it: in options, in a TOML file, or in both; options win."""

import json
import re
import tomllib
from dataclasses import asdict, fields
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from falaj.base.errors import Invalid
from falaj.cli.amounts import fraction_of, seconds_of
from falaj.cli.option_words import held_to
from falaj.cli.terminal import read_text
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act, Objective, QualityBound
from falaj.wire.wording import in_words

T = TypeVar("T")
_OPTIONS: Final = {"channels": "--channel", "actions": "--action", "objectives": "--objective", "quality": "--quality"}
TIMES: Final = ("window", "escalate_after", "remind_after")
_BOUND: Final = re.compile(r"([^<>=()]+?)(?:\(([^()]+)\))?\s*(>=|<=)\s*([^/\s]+)(?:/([0-9]+)d)?")
_OBJECTIVE: Final = re.compile(r"(availability|latency)=([0-9.]+)(%?)(?:@([0-9]+)ms)?(?:/([0-9]+)d)?")


def wishes_in(file: str) -> dict[str, Any]:
    """The fields that a file names. Raises `Invalid` for what is misspelled, by its name and place."""
    try:
        told = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"{file} is no TOML: {error}.") from None
    _refuse_unknown(file, told, Wishes)
    for name in TIMES:
        if isinstance(told.get(name), str):
            told[name] = seconds_of(told[name])
    for name, kind in (("actions", Act), ("objectives", Objective), ("quality", QualityBound)):
        if name in told:
            told[name] = [_entry(file, name, kind, one) for one in _tables(file, name, told[name])]
    read = _value(file, Wishes, told)
    return {name: getattr(read, name) for name in told}


def action_of(text: str) -> Act:
    """`roll-back`, or with more: `retrain,job=0199...,on=drift+quality,cooldown=1d,most=2,approval`."""
    do, *more = text.split(",")
    told: dict[str, Any] = {"do": do}
    for one in more:
        name, given, said = one.partition("=")
        if name not in {field.name for field in fields(Act)} - {"do"}:
            raise Invalid(f"{name!r} means nothing in the action {text!r}; there are {', '.join(_names(Act)[1:])}.")
        told[name] = said if given else True
    if "on" in told:
        told["on"] = str(told["on"]).split("+")
    if "cooldown" in told:
        told["cooldown"] = seconds_of(str(told["cooldown"]))
    if "most" in told:
        told["most"] = int(told["most"]) if str(told["most"]).isdecimal() else told["most"]
    if "approval" in told and told["approval"] is not True:
        raise Invalid(f"In the action {text!r} say `approval` alone, for somebody has to agree or not.")
    return _value(f"the action {text!r}", Act, told)


def objective_of(text: str) -> Objective:
    """`availability=99.9%`, `latency=99%@100ms`, and with so many days: `availability=99.9%/7d`."""
    found = _OBJECTIVE.fullmatch(text.replace(" ", ""))
    if found is None or (found[1] == "latency") != (found[4] is not None):
        raise Invalid(f"{text!r} is no objective; write it like availability=99.9% or latency=99%@100ms, and /7d for a week.")
    told: dict[str, Any] = {"kind": found[1], "share": round(fraction_of(found[2] + found[3], found[1]), 9)}
    if found[4]:
        told["milliseconds"] = int(found[4])
    if found[5]:
        told["days"] = int(found[5])
    return _value(f"the objective {text!r}", Objective, told)


def bound_of(text: str) -> QualityBound:
    """`auc>=0.8`, `gap(region)<=0.1`, `mean spent>=3`, and over so many days: `accuracy>=0.9/30d`."""
    found = _BOUND.fullmatch(text.strip())
    if found is None:
        raise Invalid(f"{text!r} is no bound; write it like auc>=0.8 or 'gap(region)<=0.1', and /30d for a month.")
    told: dict[str, Any] = {"figure": found[1].strip(), "side": "at least" if found[3] == ">=" else "at most"}
    told |= {"slice": found[2] or "", "limit": number_in(found[4], text)}
    if found[5]:
        told["days"] = int(found[5])
    return _value(f"the bound {text!r}", QualityBound, told)


def number_in(text: str, bound: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"In the bound {bound!r}, {text!r} is no number.") from None


def merged(before: Wishes | None, file: dict[str, Any], options: dict[str, Any]) -> Wishes:
    """What is not named stays as it was; where there was no monitor, as it is usually."""
    known = {} if before is None else {field.name: getattr(before, field.name) for field in fields(Wishes)}
    return held_to(Wishes, Wishes(**(known | file | options)), _OPTIONS)


def changes(before: Wishes, after: Wishes) -> list[tuple[str, str, str]]:
    """What is another, and was before and is now, in words."""
    both = [(field.name, getattr(before, field.name), getattr(after, field.name)) for field in fields(Wishes)]
    return [(name.replace("_", " "), in_few_words(old), in_few_words(new)) for name, old, new in both if old != new]


def in_few_words(one: Any) -> str:
    """As it could be written as an option."""
    if isinstance(one, tuple):
        return ", ".join(in_few_words(part) for part in one) or "none"
    if isinstance(one, Objective):
        limit = f"@{one.milliseconds}ms" if one.kind == "latency" else ""
        return f"{one.kind}={one.share * 100:g}%{limit}/{one.days}d"
    if isinstance(one, QualityBound):
        figure = f"{one.figure}({one.slice})" if one.slice else one.figure
        positive = f" of {one.positive}" if one.positive else ""
        return f"{figure}{'>=' if one.side == 'at least' else '<='}{one.limit:g}/{one.days}d{positive}"
    if isinstance(one, Act):
        usual = asdict(Act(do=one.do))
        more = [
            f"{name}={'+'.join(it) if isinstance(it, tuple) else it}" for name, it in asdict(one).items() if it != usual[name]
        ]
        return " ".join([one.do, *more])
    return str(one) if one != "" else "none"


def _entry(file: str, name: str, kind: type, told: dict[str, Any]) -> dict[str, Any]:
    _refuse_unknown(f"{file}: {name}", told, kind)
    if isinstance(told.get("cooldown"), str):
        told["cooldown"] = seconds_of(told["cooldown"])
    if isinstance(told.get("share"), str):
        told["share"] = round(fraction_of(told["share"].replace(" ", ""), "share"), 9)
    return told


def _tables(file: str, name: str, told: Any) -> list[dict[str, Any]]:
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        raise Invalid(f"{file}: write each of the {name} as a table of its own: [[{name}]].")
    return told


def _refuse_unknown(what: str, told: dict[str, Any], kind: type) -> None:
    if unknown := sorted(told.keys() - set(_names(kind))):
        raise Invalid(f"{what} has {unknown[0]!r}, which means nothing here; there are {', '.join(_names(kind))}.")


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)]


def _value(what: str, kind: type[T], told: dict[str, Any]) -> T:
    try:
        found: T = TypeAdapter(kind).validate_json(json.dumps(told, default=str))
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        name = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"{what}: {name} {in_words(first) or first['msg']}, and is {first['input']!r}.") from None
    return found
