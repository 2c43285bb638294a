"""What people fill in about monitors, made into wishes: minutes become seconds, rows become actions and objectives."""

from dataclasses import asdict
from typing import Any, Final

from falaj.base.operation import Operation
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act, Objective
from falaj.web.bodies import Fields
from falaj.web.forms import FormState, Mistyped, checked, read_message

_WORDS: Final = ("reference", "time", "window", "learn_rows", "floor", "one_in", "season", "timezone", "quiet")
_NAMES: Final = ("channels", "escalate_to")
_MINUTE: Final = 60
_HOUR: Final = 3600


def application(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    """What is left blank is as it is by default. The endpoint is named by the address, or by a field."""
    said: dict[str, Any] = {name: _said(fields, name) for name in _WORDS if _said(fields, name)}
    said |= {name: [one for one in fields.get(name, []) if one] for name in _NAMES}
    said["ignore"] = [line.strip() for line in _said(fields, "ignore").splitlines() if line.strip()]
    said |= _times(fields, "escalate_after", _MINUTE) | _times(fields, "remind_after", _HOUR)
    said["actions"] = [asdict(_action(fields, row)) for row in _rows(fields, "do")]
    said["objectives"] = [asdict(_objective(fields, row)) for row in _rows(fields, "kind")]
    return checked(
        operation,
        {
            "project": path["project"],
            "endpoint": path.get("endpoint") or _said(fields, "endpoint"),
            "wishes": asdict(read_message(Wishes, said)),
            "relearn": _said(fields, "relearn") or False,
        },
    )


def rows_shown(form: FormState, name: str, known: int) -> list[int]:
    """Those that were typed where a form comes back, else those that there are; and one more to fill in."""
    typed = [int(field.removeprefix(f"{name}-")) for field in form.values if _is_row(field, name)]
    return sorted(typed) or list(range(known + 1))


def _rows(fields: Fields, name: str) -> list[int]:
    return sorted(int(field.removeprefix(f"{name}-")) for field in fields if _is_row(field, name) and _said(fields, field))


def _is_row(field: str, name: str) -> bool:
    number = field.removeprefix(f"{name}-")
    return number != field and number.isascii() and number.isdigit() and len(number) < 4


def _action(fields: Fields, row: int) -> Any:
    said: dict[str, Any] = {name: _said(fields, f"{name}-{row}") for name in ("do", "most", "variant", "job")}
    said = {name: text for name, text in said.items() if text} | _times(fields, f"cooldown-{row}", _MINUTE, "cooldown")
    said["on"] = fields.get(f"on-{row}", [])
    said["approval"] = bool(_said(fields, f"approval-{row}"))
    return _read(Act, said, row)


def _objective(fields: Fields, row: int) -> Any:
    said: dict[str, Any] = {name: _said(fields, f"{name}-{row}") for name in ("kind", "milliseconds", "days")}
    said = {name: text for name, text in said.items() if text}
    said["share"] = _number(fields, f"percent-{row}") / 100
    return _read(Objective, said, row, share="percent")


def _read(kind: Any, said: dict[str, Any], row: int, **names: str) -> Any:
    """Mistakes are told beside the fields of their row."""
    try:
        return read_message(kind, said)
    except Mistyped as error:
        raise Mistyped({f"{names.get(name, name)}-{row}": words for name, words in error.fields.items()}) from None


def _times(fields: Fields, field: str, unit: int, name: str = "") -> dict[str, int]:
    return {name or field: round(_number(fields, field) * unit)} if _said(fields, field) else {}


def _number(fields: Fields, field: str) -> float:
    try:
        number = float(_said(fields, field).removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise Mistyped({field: "Write a number."})
    return number


def _said(fields: Fields, name: str) -> str:
    return fields.get(name, [""])[-1].strip()
