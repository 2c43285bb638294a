"""Drawing templates. Everything is escaped unless a template's own macro made it."""

import json
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from falaj.base.clock import DAY, Moment
from falaj.web.assets import Assets
from falaj.web.experiments.numbers import duration_text, moment_of, number_text

TEMPLATES: Final = Path(__file__).parent / "templates"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Renderer:
    """Thread-safe once made."""

    def __init__(self, assets: Assets, *, version: str) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._environment.globals |= {"asset": assets.url, "falaj_version": version, "days_until": days_until}
        self._environment.filters |= {"time": time_tag, "ago": ago_tag, "size": size, "pretty": pretty, "count": count}
        self._environment.filters |= {"number": number_text, "duration": duration_text, "moment": moment_of}
        self._environment.filters |= {"with_code": with_code}

    def draw(self, template: str, **facts: Any) -> str:
        return self._environment.get_template(template).render(**facts)


def time_tag(moment: Moment | None, show: str = "") -> Markup:
    """UTC for those without a script; the page's script writes the reader's own time."""
    if moment is None:
        return Markup('<span class="soft">never</span>')
    exact = str(Moment(moment))
    readable = f"{exact[:10]} {exact[11 : 19 if show == 'exact' else 16]} UTC"
    return Markup('<time datetime="{}" title="{}" data-show="{}">{}</time>').format(exact, exact, show, readable)


def ago_tag(moment: Moment | None) -> Markup:
    return time_tag(moment, "ago")


def days_until(moment: Moment, now: Moment) -> int:
    return max(0, (moment - now) // DAY)


def size(count_of_bytes: int) -> str:
    amount, unit = float(count_of_bytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 or amount >= 100 else f"{amount:.1f} {_UNITS[unit]}"


def count(number: int) -> str:
    return f"{number:,}"


def with_code(text: str) -> Markup:
    """What stands between backticks is code; one that has no partner stays as it is."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["`".join(parts[-2:])]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)
