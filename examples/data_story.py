"""The demo's data: real flights, a bad batch in quarantine, what changed, and features of what was known at the time."""

import shutil
import subprocess
import time
from typing import Any

from model_story import HERE
from stage import CLIENTS, PATIENCE, Stage, expect

PROJECT = "airport"
CHECKS = """\
[[checks]]
name = "delay-in-range"
kind = "range"
columns = ["delay"]
least = -120
most = 1440

[[checks]]
name = "carrier-is-a-code"
kind = "sql"
sql = "SELECT * FROM flights WHERE NOT regexp_full_match(carrier, '[A-Z0-9]{2}')"

[[checks]]
name = "once-each"
kind = "unique"
columns = ["id"]
"""
VIEW = """\
[[view]]
name = "{name}"
dataset = "flights"
keys = ["{key}"]
event = "scheduled"
known = "{known}"

[view.features]
"""
CARRIER = VIEW + '{key}_delay_12h = {{ column = "delay", function = "mean", period = "12h" }}\n'
ORIGIN = VIEW + (
    '{key}_delay_3h = {{ column = "delay", function = "mean", period = "3h" }}\n'
    '{key}_landed_3h = {{ column = "delay", function = "count", period = "3h" }}\n'
)
VIEWS = CARRIER.format(name="carriers", key="carrier", known="landed") + ORIGIN.format(
    name="origins", key="origin", known="landed"
)
CARELESS = CARRIER.format(name="careless", key="carrier", known="scheduled")  # as if a delay were known before the flight
NOON = "2013-01-14T17:00:00Z"  # in New York


class DataStory:
    """Steps like those of `Demo`, by the owner, in a project of their own."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def imported(self) -> str:
        """A file goes in by one command: types are found, rows sealed, the version digested, profiled and recorded."""
        self.stage.falaj("project", "create", PROJECT, "--zone", "home")
        taken = subprocess.run(
            [str(CLIENTS / "demo" / "bin" / "python"), str(HERE / "take_flights.py"), str(self.stage.folder)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        expect(taken.returncode == 0, f"The flights could not be taken out of their package: {taken.stderr.strip()[-400:]}")
        self.first = self.dataset("import", "flights", self.file("flights.csv"))
        columns = {one["name"]: one for one in self.dataset("show", "flights", "--profile")["profile"]["columns"]}
        delay = columns["delay"]
        late = f"delays from {delay['min']} to {delay['max']} minutes, median {delay['quantiles']['0.5']:g}"
        self.stage.say(f"flights@1: {columns['carrier']['distinct']} carriers, {late}")
        return f"{self.first['rows']:,} real flights of a week, sealed and profiled, as flights@1"

    def quarantined(self) -> str:
        """What must hold is declared once; a version that breaks it is kept apart, and the last good one stays current."""
        checks = self.stage.folder / "checks.toml"
        checks.write_text(CHECKS)
        self.dataset("check", "flights", "--set", str(checks))
        self.dataset("import", "flights", self.file("bad.csv"), fails=True)
        held = self.dataset("show", "flights", "--quarantined")
        for found in held["findings"]:
            self.stage.say(f"{found['check']}: {found['says']} ({found['rows']} rows)", "red")
        broken = {found["check"] for found in held["findings"]}
        expect(broken == {"delay-in-range", "carrier-is-a-code", "once-each"}, f"Only {sorted(broken)} were found broken.")
        expect(self.dataset("show", "flights")["version"] == 1, "The bad batch became current.")
        return f"flights@{held['version']} broke 3 checks and is in quarantine, with the rows that did; flights@1 stays current"

    def compared(self) -> str:
        """The batch as it should have been, and what it changed."""
        second = self.dataset("import", "flights", self.file("more.csv"))
        told = self.dataset("diff", "flights@1", f"flights@{second['version']}", "--key", "id")
        (delay,) = (one for one in told["shifts"] if one["name"] == "delay")
        before, after = delay["mean"]
        self.stage.say(
            f"delay: mean from {before:.1f} to {after:.1f} minutes, its distribution moved by {delay['distance']:.2f} of 1"
        )
        added = second["rows"] - self.first["rows"]
        rows = (told["rows_added"], told["rows_removed"], told["rows_changed"])
        expect(rows == (added, 0, 0), f"The diff tells another story: {rows}.")
        return f"flights@{second['version']} has {added:,} flights more, none gone, none changed"

    def known_then(self) -> str:
        """A training set by event and knowledge time: no value that was not known when the question was asked."""
        features = self.stage.folder / "features.toml"
        features.write_text(VIEWS + CARELESS)
        self.feature("apply", str(features))
        self.dataset("import", "questions", self.file("labels.csv"))
        wanted = ("--time", "asked", "--feature", "carriers", "--feature", "origins")
        made = self.feature("training-set", "questions", "training", *wanted)
        self.feature("training-set", "questions", "careless", "--time", "asked", "--feature", "careless")
        different = (
            "SELECT count(*) FROM training JOIN careless USING (id) "
            "WHERE training.carrier_delay_12h IS DISTINCT FROM careless.carrier_delay_12h"
        )
        ((leaked,),) = self.dataset("query", different)["rows"]
        rows = made["version"]["rows"]
        expect(0 < leaked <= rows, "Ignoring when a delay became known changes nothing.")
        return f"{rows:,} questions, each with what was known then; by event time alone {leaked:,} would see what came later"

    def trained(self) -> str:
        """A job reads the training set by name and version, through a grant."""
        folder = self.stage.folder / "delays"
        folder.mkdir()
        shutil.copy(HERE / "train_delays.py", folder)
        submitted = self.stage.falaj(
            *("job", "submit", "--project", PROJECT, "--source", str(folder), "--cpus", "1", "--memory", "1GiB"),
            *("--", "python", "train_delays.py", "training@1"),
        )
        job, deadline = submitted["job"]["id"], time.monotonic() + PATIENCE
        while (found := self.stage.falaj("job", "show", job, "--project", PROJECT))["state"] != "done":
            expect(
                found["state"] != "failed" and time.monotonic() < deadline,
                f"The training is {found['state']}: {found['words']}",
            )
            time.sleep(0.2)
        said = self.stage.falaj("job", "logs", job, "--project", PROJECT)["text"].strip().splitlines()[-1]
        expect(float(said.rpartition(" ")[2]) > 0.5, f"The model knows less than nothing: {said}")
        return f"{said}, on days that it had not seen"

    def served(self) -> str:
        """The same values online, to the bit, of any moment."""
        self.feature("materialise", "carriers", "--at", NOON)
        online = self.feature("get", "carriers", "--entity", "carrier=UA", "--entity", "carrier=B6")["rows"]
        asked = self.stage.folder / "noon.csv"
        asked.write_text(f"carrier,asked\nUA,{NOON}\nB6,{NOON}\n")
        self.dataset("import", "noon", str(asked))
        self.feature("training-set", "noon", "at-noon", "--time", "asked", "--feature", "carriers")
        offline = self.dataset("query", 'SELECT carrier_delay_12h FROM "at-noon"')["rows"]
        expect(online == offline, f"Online has {online}, and a training set of that moment {offline}.")
        united, jetblue = (row[0] for row in online)
        return f"mean delays at noon of the 14th: UA {united:.1f}, B6 {jetblue:.1f}; online and in a training set the same bits"

    # What the steps share

    def dataset(self, verb: str, *words: str, fails: bool = False) -> Any:
        return self.stage.falaj("dataset", verb, *words, "--project", PROJECT, fails=fails)

    def feature(self, verb: str, *words: str) -> Any:
        return self.stage.falaj("feature", verb, *words, "--project", PROJECT)

    def file(self, name: str) -> str:
        return str(self.stage.folder / name)
