"""What people fill in about endpoints, made into requests: per cent become shares, rows of a form become arms."""

import re
from dataclasses import asdict, replace
from typing import Any, Final

from falaj.base.operation import Operation
from falaj.serving.operations.endpoints import Options
from falaj.serving.operations.words import WHOLE, Steps
from falaj.web.bodies import Fields
from falaj.web.forms import Mistyped, checked, read_message, request_from

HUNDREDTHS: Final = WHOLE // 100
_OF_DEPLOYMENT: Final = ("percent", "steps", "minutes")
_NUMBERS: Final = ("latency_ms", "concurrency", "calls_per_second", "idle_seconds")
_WORDS: Final = ("nan", "device")
_LISTS: Final = ("masked", "callbacks")


def percent(share: int) -> str:
    return f"{share / HUNDREDTHS:g} %"


def deployment(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    """Shares and steps are looked at only where the mode has them, for without a script all fields are there."""
    plain = {name: texts for name, texts in fields.items() if name not in _OF_DEPLOYMENT}
    mode = _said(fields, "mode")
    if mode in ("canary", "shadow", "ab") and _said(fields, "percent"):
        plain["share"] = [str(_share(_said(fields, "percent"), "percent"))]
    request = request_from(operation, plain, path)
    return replace(request, steps=_steps(fields)) if mode == "canary" and _said(fields, "steps") else request


def split(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    """One row for each revision: `share-3`, `role-3`, `label-3`. Those without a share are left out."""
    arms: list[dict[str, Any]] = []
    for name in fields:
        number = name.removeprefix("share-")
        if number == name or not _said(fields, name):
            continue
        share = _share(_said(fields, name), name)
        if share:
            role = _said(fields, f"role-{number}") or "live"
            arms.append({"revision": number, "share": share, "role": role, "label": _said(fields, f"label-{number}")})
    total = sum(arm["share"] for arm in arms if arm["role"] == "live")
    if total != WHOLE:
        raise Mistyped({"arms": f"The live shares sum to {percent(total)}; they must sum to 100 %."})
    return checked(operation, _named(path) | {"arms": arms, "reason": _said(fields, "reason")})


def configuration(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    said: dict[str, Any] = {name: _said(fields, name) for name in (*_NUMBERS, *_WORDS) if _said(fields, name)}
    said |= {name: [line.strip() for line in _said(fields, name).splitlines() if line.strip()] for name in _LISTS}
    if _said(fields, "log_percent"):
        said["log_share"] = _share(_said(fields, "log_percent"), "log_percent")
    return checked(operation, _named(path) | {"options": asdict(read_message(Options, said))})


def endpoint_name(model: str) -> str:
    """A model's name as an endpoint can be called, which has fewer letters to choose from."""
    return re.sub(r"[^a-z0-9._-]+", "-", model.lower()).strip("._-")[:100] or "model"


def _steps(fields: Fields) -> Steps:
    shares = [_share(part.strip(), "steps") for part in _said(fields, "steps").split(",") if part.strip()]
    try:
        minutes = float(_said(fields, "minutes") or 5)
        return read_message(Steps, {"shares": shares, "seconds": round(minutes * 60)})  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        raise Mistyped({"minutes": "Write a number of minutes."}) from None
    except Mistyped as error:
        wrong = {"minutes" if name == "seconds" else "steps": words for name, words in error.fields.items()}
        raise Mistyped(wrong) from None


def _share(text: str, field: str) -> int:
    try:
        share = round(float(text.removesuffix("%")) * HUNDREDTHS)
    except (ValueError, OverflowError):
        share = -1
    if not 0 <= share <= WHOLE:
        raise Mistyped({field: "Write per cent, from 0 to 100."})
    return share


def _said(fields: Fields, name: str) -> str:
    return fields.get(name, [""])[-1].strip()


def _named(path: dict[str, str]) -> dict[str, Any]:
    return {name: path[name] for name in ("project", "endpoint")}
