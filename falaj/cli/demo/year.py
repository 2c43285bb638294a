"""The story: a model of the winter is served through the year, the seasons surprise it, and a better one proves to be one."""

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from falaj.base.values import value
from falaj.cli.demo import flights as packed
from falaj.cli.demo.asking import Answer, Ask, Question, in_calls, load
from falaj.cli.demo.flights import FLIGHTS, WINTER, Flight
from falaj.cli.demo.ground import AGAIN, ENDPOINT, MODEL, PROJECT, Ground
from falaj.cli.demo.playing import Step
from falaj.cli.demo.stage import PATIENCE, expect
from falaj.client.http import Client
from falaj.monitoring.operations.abtests import (
    LIST_ABTESTS,
    READ_POINTS,
    SHOW_ABTEST,
    Abtest,
    ListAbtests,
    OneAbtest,
    Point,
)
from falaj.serving.operations.words import WHOLE
from falaj.statistics import quality
from falaj.statistics.intervals import Interval

MONTHS: Final = ("", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
                 "November", "December")  # fmt: skip
REST: Final = "Winter's rest"
WINDOW: Final = 4  # seconds; a month goes by in one
_ASIDE: Final = 10  # one in so many of the winter's flights is kept aside, and asked about later
_A_MONTH: Final = 3000  # flights of it that are asked about
_TOGETHER: Final = 30  # in one call
_MIXES: Final = 2_654_435_761  # a prime near the golden part of 2**32: numbers in a row are far apart times it
_TRIALS: Final = 4
_APART: Final = 5  # one in so many days of the spring is learnt from by no model
_DAYS: Final = 1500  # flights whose truth comes together
_NOON: Final = "2013-01-14T17:00:00Z"  # in New York
_CHECKS: Final = """\
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
_CARELESS: Final = """\
[[view]]
name = "careless"
dataset = "flights"
keys = ["carrier"]
event = "scheduled"
known = "scheduled"

[view.features]
carrier_delay_12h = { column = "delay", function = "mean", period = "12h" }
"""
_GATES: Final = """\
[gates.quality]
kind = "quality"
on = "apart"
label = "late"
"""


@value
class Month:
    """`began` and `ended` are seconds since 1970: by them its windows are found."""

    name: str
    began: float
    ended: float
    answers: tuple[Answer, ...]

    @property
    def revisions(self) -> list[int]:
        return sorted({answer.revision for answer in self.answers})

    def auc(self, revision: int) -> Interval:
        own = [answer for answer in self.answers if answer.revision == revision]
        return quality.auc([answer.chance for answer in own], [answer.question.late for answer in own])

    def accuracy(self, revision: int) -> Interval:
        own = [answer for answer in self.answers if answer.revision == revision]
        return quality.accuracy([answer.label for answer in own], [answer.question.late for answer in own])


class Year:
    """Steps, in their order. What they leave is what chapters go on with, and what the report draws."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.stage = ground, ground.stage
        self.months: list[Month] = []
        self.alert: dict[str, Any] = {}
        self.again = ""  # the run of the pipeline that the alert started
        self.evidence: list[dict[str, Any]] = []  # of the gates that what it trained went through
        self.brought_out: list[dict[str, Any]] = []  # its steps, once it is over
        self.test: Abtest | None = None
        self.points: tuple[Point, ...] = ()
        self.windows: list[dict[str, Any]] = []
        self.floor = 0.0  # the distance from which on a change matters

    def steps(self) -> list[Step]:
        return [
            Step(
                title="Bring in the flights of a year",
                words="336,776 flights and the weather: types are found, rows sealed, versions digested and profiled.",
                play=self.imported,
            ),
            Step(
                title="Keep a bad delivery out",
                words="December comes with three mistakes in it. What must hold was declared, so what was there stays current.",
                play=self.quarantined,
            ),
            Step(
                title="Ask what was known at the time",
                words="An hour before each flight: how late was its carrier, how full of delays its airport, what weather?",
                play=self.known_then,
            ),
            Step(
                title="Train on winter: a baseline, and a model that is tuned",
                words="Two jobs side by side, each in a sandbox with a token of its own, judged on days that they never saw.",
                play=self.trained,
            ),
            Step(
                title="Put the better one into production",
                words="One command; it answers when the command returns. The line below works in your own terminal, too.",
                play=self.deployed,
            ),
            Step(
                title="Serve through spring, and be told that it is not winter any more",
                words="What is asked is held against what was learnt from. An alert of drift shall start a pipeline by itself.",
                play=self.surprised,
            ),
            Step(
                title="Train it again, on all that is known by July",
                words="The alert has started a pipeline: it waits for the truth, trains, and has a gate look at what came out.",
                play=self.retrained,
            ),
            Step(
                title="Let July decide",
                words="Somebody agrees, and the pipeline goes on: a canary, then half each, until the verdict, which acts.",
                play=self.tested,
            ),
            Step(
                title="Go on to the end of the year",
                words="The winner answers, and what became of the flights says how well.",
                play=self.went_on,
            ),
        ]

    # Data

    def imported(self) -> str:
        ground = self.ground
        ground.flights = packed.flights()
        ground.open_project()
        made = ground.bring([one for one in ground.flights if one.month < 12])
        columns = {one["name"]: one for one in ground.falaj("dataset", "show", "flights", "--profile")["profile"]["columns"]}
        delay = columns["delay"]
        late = f"delays from {delay['min']} to {delay['max']} minutes, median {delay['quantiles']['0.5']:g}"
        self.stage.say(f"flights@1: {columns['carrier']['distinct']} carriers, {late}")
        known = f"{len(ground.flights):,} of {FLIGHTS:,} flights arrived where they should"
        return f"{known}; {made['rows']:,} of them, up to November, are flights@1"

    def quarantined(self) -> str:
        ground = self.ground
        ground.falaj("dataset", "check", "flights", "--set", self.stage.written("checks.toml", _CHECKS))
        december, bad = [one for one in ground.flights if one.month == 12], self.stage.folder / "december.csv"
        packed.write_bad(december, bad)
        ground.falaj("dataset", "import", "flights", str(bad), fails=True)
        held = ground.falaj("dataset", "show", "flights", "--quarantined")
        for found in held["findings"]:
            self.stage.say(f"{found['check']}: {found['says']} ({found['rows']} rows)", "red")
        broken = {found["check"] for found in held["findings"]}
        expect(broken == {"delay-in-range", "carrier-is-a-code", "once-each"}, f"Only {sorted(broken)} were found broken.")
        expect(ground.falaj("dataset", "show", "flights")["version"] == 1, "The bad delivery became current.")
        good = ground.deliver(december, "december-again.csv")
        expect(not good["quarantined"], f"The good delivery is held back: {good['findings']}")
        return f"flights@{held['version']} broke 3 checks and is in quarantine; delivered again it is flights@{good['version']}"

    def known_then(self) -> str:
        ground = self.ground
        ground.define_views()
        made = ground.training_set("winter", self._winter())
        leaked = self._leaked(made["rows"])
        self._the_same_online()
        return (
            f"winter@1 has {made['rows']:,} flights; by the time of flights alone {leaked:,} of them would have seen the future"
        )

    def _leaked(self, rows: int) -> int:
        """In how many rows a careless join, as if a delay were known before the flight, has another value."""
        ground = self.ground
        ground.falaj("feature", "apply", self.stage.written("careless.toml", _CARELESS))
        ground.joined("winter-asked", "careless", ["careless"])
        different = (
            "SELECT count(*) FROM winter JOIN careless USING (id) "
            "WHERE winter.carrier_delay_12h IS DISTINCT FROM careless.carrier_delay_12h"
        )
        ((leaked,),) = ground.falaj("dataset", "query", different)["rows"]
        expect(0 < leaked <= rows, "Ignoring when a delay became known changes nothing.")
        return int(leaked)

    def _the_same_online(self) -> None:
        ground = self.ground
        ground.falaj("feature", "materialise", "carriers", "--at", _NOON)
        online = ground.falaj("feature", "get", "carriers", "--entity", "carrier=UA", "--entity", "carrier=B6")["rows"]
        noon = self.stage.written("noon.csv", f"carrier,asked\nUA,{_NOON}\nB6,{_NOON}\n")
        ground.falaj("dataset", "import", "noon-asked", noon)
        ground.joined("noon-asked", "noon", ["carriers"])
        offline = ground.falaj("dataset", "query", "SELECT carrier_delay_12h FROM noon")["rows"]
        expect(online == offline, f"Online has {online}, and a training set of that moment {offline}.")
        united, jetblue = (row[0] for row in online)
        self.stage.say(
            f"noon of 14 January: UA {united:.1f}, B6 {jetblue:.1f} minutes late; online and in training the same bits"
        )

    # Models

    def trained(self) -> str:
        ground = self.ground
        baseline, model = ground.begin("winter", "baseline"), ground.begin("winter", "tuned", "--trials", str(_TRIALS))
        known = [ground.trained(job, name) for job, name in ((baseline, "baseline"), (model, "tuned"))]
        for one in known:
            self.stage.say(f"{one.name}: {one.words}")
            ground.register(one)
        plain, tuned = known
        expect(tuned.auc > plain.auc, "The tuned model is no better than the baseline.")
        ground.promote(2)
        return f"{MODEL} 2 is the champion, signed: {tuned.auc:.3f} against {plain.auc:.3f} of the baseline"

    def deployed(self) -> str:
        ground = self.ground
        made = ground.deploy(2)
        self.floor = ground.falaj("monitor", "apply", ENDPOINT, "--window", str(WINDOW))["wishes"]["floor"]
        self._ask_about_the_rest()
        record = next(one.record for one in ground.served if None not in one.record.values())
        address = f"{ground.url}/v2/endpoints/{ENDPOINT}/predict"
        line = f"curl -s {address} -H 'authorization: Bearer {ground.key}' -d {shlex.quote(json.dumps(record))}"
        self.stage.say(line, "bold")
        self.stage.say(self._pasted(line, record))
        self._refused(record)
        return f"{MODEL} {made['endpoint']['revisions'][0]['version']} answers; without a token it does not"

    def _pasted(self, line: str, record: dict[str, Any]) -> str:
        """What the line says in a terminal; where there is no curl, the same call made here."""
        if shutil.which("curl") is None:
            with self.ground.ask() as ask:
                return json.dumps(ask.send([record], "by-hand")[1])
        done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=PATIENCE, check=False)
        expect(done.returncode == 0 and "probabilities" in done.stdout, f"curl was told: {done.stdout or done.stderr}")
        return done.stdout.strip()

    def _refused(self, record: dict[str, Any]) -> None:
        ground = self.ground
        with Ask(ground.url, ENDPOINT, "none") as stranger:
            status, _ = stranger.send([record], "stranger")
        expect(status == 401, f"Somebody without a token was answered with {status}.")

    # The year

    def surprised(self) -> str:
        self.ground.falaj("gate", "apply", self.stage.written("gates.toml", _GATES))
        self.ground.pipeline(AGAIN)
        self.ground.falaj("pipeline", "trigger", "set", "again", "seasons", "--on", "drift", "--about", ENDPOINT)
        calm = self._lived(REST, self.ground.served)
        for number in (4, 5, 6):
            self._lived(MONTHS[number], self._some_of(number))
        (self.alert, *_) = self.stage.until(self._alerts, "spring to be noticed")
        self.stage.say(self.alert["title"], "red")
        for sentence in self.alert["sentences"]:
            self.stage.say(sentence)
        self._tell(self.months)
        named = [one["column"] for one in self.alert["columns"]]
        expect("temp" in named, f"The alert names {named} alone.")
        drifted = [one["column"] for window in self._windows_of(calm) for one in window["columns"] if one["drifting"]]
        expect(not drifted, f"The rest of the winter is taken for something else: {drifted}")
        self.ground.falaj("alert", "acknowledge", self.alert["id"])
        self.again = self.stage.until(self._runs, "the alert to start the pipeline")[0]["id"]
        return f"nothing in the rest of winter; spring found by {', '.join(named[:4])}, and the pipeline started by that"

    def retrained(self) -> str:
        ground = self.ground
        half = [one for one in ground.flights if one.month <= 6]
        ground.asked("by-july", [one for one in half if one.id % 2 and not _is_apart(one)])
        ground.asked("apart", [one for one in half if not one.id % 2 and _is_apart(one)])
        ground.falaj("pipeline", "send", self.again, "truths")
        number = ground.made_by(self.again, "train", "retrained")
        known = ground.versions[number].trained
        question = ground.reached(self.again, "approval", "asking")["words"]
        self.evidence = ground.falaj("gate", "evidence", MODEL, str(number))["items"]
        for one in self.evidence:
            self.stage.say(f"gate {one['gate']}: {one['words']}", "green")
        expect([one["passed"] for one in self.evidence] == [True], f"The gates of version {number}: {self.evidence}")
        self.stage.say(f"the pipeline asks: {question}", "bold")
        return f"{MODEL} {number}, of {known.rows:,} flights of the half year: {known.words}; it passed its gate"

    def tested(self) -> str:
        ground, number = self.ground, max(self.ground.versions)
        ground.falaj("pipeline", "approve", self.again, "approval", "--reason", "It knows the half year.")
        test = self._decided()
        self.stage.say(test.sentence, "green")
        self.brought_out = ground.over(self.again)["steps"]
        arms = ground.falaj("endpoint", "show", ENDPOINT)["arms"]
        expect([one["revision"] for one in arms] == [2], f"The winner was not promoted: {arms}")
        ground.champion = int(ground.falaj("model", "show", MODEL, "champion")["version"])
        expect(ground.champion == number, f"The pipeline left version {ground.champion} as the champion.")
        return f"decided after {test.units:,} flights, and promoted by itself; {MODEL} {number} is the champion"

    def went_on(self) -> str:
        before = len(self.months)
        for number in range(1 + max(MONTHS.index(one.name) for one in self.months if one.name in MONTHS), 13):
            self._lived(MONTHS[number], self._some_of(number))
        self._tell(self.months[before:])
        told = self.ground.falaj("labels", "quality", ENDPOINT, "--by", "whole")["items"]
        for one in sorted(told, key=lambda it: it["revision"]):
            figures = {figure["name"]: figure for figure in one["figures"]}
            right = figures["accuracy"]
            self.stage.say(
                f"revision {one['revision']}: right for {right['at']:.1%} of {right['rows']:,} flights "
                f"({right['low']:.1%} to {right['high']:.1%})"
            )
        last = self.months[-1]
        self.stage.until(partial(self._windows_of, last), "the last window to be closed")
        self.windows = self._windows()
        self.ground.training, self.ground.held_out = "by-july", "autumn"
        self.ground.training_set("autumn", [one for one in self.ground.flights if one.month > 8 and not one.id % 20])
        asked = sum(len(month.answers) for month in self.months)
        return f"{asked:,} predictions in a year, none failed; revision 2 answers, and what became of its flights is known"

    # What the steps share

    def _winter(self) -> list[Flight]:
        return [one for one in self.ground.flights if one.month in WINTER and one.id % _ASIDE]

    def _ask_about_the_rest(self) -> None:
        """What the application asks later: with what was known of each flight then, by the same views."""
        rest = [one for one in self.ground.flights if not (one.month in WINTER and one.id % _ASIDE)]
        self.ground.training_set("year", rest)
        questions = self.ground.questions("year")
        self.ground.served = [one for one in questions if one.month in WINTER]
        self._later = [one for one in questions if one.month not in WINTER]

    def _of(self, number: int) -> list[Question]:
        return [one for one in self._later if one.month == number]

    def _some_of(self, number: int) -> list[Question]:
        own = self._of(number)
        return own[:: max(1, len(own) // _A_MONTH)]

    def _lived(self, name: str, questions: Sequence[Question]) -> Month:
        """A month goes by in one window; where that is too short, each of two has flights of the whole month."""
        mixed = sorted(questions, key=lambda one: one.id * _MIXES % 2**32)
        time.sleep(WINDOW - time.time() % WINDOW + 0.1)
        began = time.time()
        with self.ground.ask() as ask:
            answers = in_calls(ask, mixed, together=_TOGETHER, seconds=0.7 * WINDOW, name=name.lower())
        month = Month(name=name, began=began, ended=time.time(), answers=tuple(answers))
        self.months.append(month)
        late = sum(one.late for one in questions) / len(questions)
        shown = ", ".join(f"{month.auc(revision).at:.3f} by revision {revision}" for revision in month.revisions)
        self.stage.say(f"{name}: {len(answers):,} flights, {late:.0%} of them late; area under the curve {shown}")
        return month

    def _tell(self, months: Sequence[Month]) -> None:
        self.ground.tell_truths([answer for month in months for answer in month.answers])

    def _alerts(self) -> list[dict[str, Any]]:
        found = self.ground.falaj("alert", "list", "--endpoint", ENDPOINT, quietly=True)["items"]
        return [one for one in found if one["kind"] == "drift"]

    def _runs(self) -> list[dict[str, Any]]:
        return list(self.ground.falaj("pipeline", "runs", "again", quietly=True)["items"])

    def _windows(self) -> list[dict[str, Any]]:
        found = []
        for revision in range(1, 1 + max(revision for month in self.months for revision in month.revisions)):
            told = self.ground.falaj("monitor", "windows", ENDPOINT, "--revision", str(revision), quietly=True)
            found += [window | {"revision": revision} for window in told["items"]]
        return found

    def _windows_of(self, month: Month) -> list[dict[str, Any]]:
        began, ended = (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) for at in (month.began - WINDOW, month.ended))
        return [one for one in self._windows() if began < one["at"][:19] <= ended]

    def _decided(self) -> Abtest:
        """July is asked flight by flight, and August, if it takes more, and meanwhile the pipeline brings the canary and begins
        the test. Truths come day by day, and each time one looks."""
        known, began, summer = 0, time.time(), [*self._of(7), *self._of(8)]
        with self.stage.client() as client, self.ground.ask() as ask, load(ask, summer, "july") as july:
            asked = OneAbtest(project=PROJECT, abtest=self._test_begun(client))
            while (test := client.call(SHOW_ABTEST, asked)).state == "running":
                expect(known < len(summer), f"Two months were not enough: {test.sentence}")
                july.wait_until(known + _DAYS)
                self.ground.tell_truths(july.answers[known : known + _DAYS])
                known += _DAYS
            self.points = client.call(READ_POINTS, asked).items
        self.months.append(Month(name=MONTHS[7], began=began, ended=time.time(), answers=tuple(july.answers[:known])))
        expect(test.state == "won", f"The test is {test.state}: {test.sentence}")
        self.test = test
        return test

    def _test_begun(self, client: Client) -> str:
        """The name of the test that the pipeline makes, once all planes have taken up its split."""
        made = self.ground.reached(self.again, "deploy")["result"]
        self.stage.say(
            f"revision {made['revision']} answers {self._share_of(made['revision']):.0%} of July's calls, as a canary"
        )
        self.ground.reached(self.again, "abtest", "running")
        listed = ListAbtests(project=PROJECT, endpoint=ENDPOINT)

        def look() -> str:
            return next((one.name for one in client.call(LIST_ABTESTS, listed).items if one.counted), "")

        name = self.stage.until(look, "the split of the test to be taken up", every=0.1)
        self.stage.say(f"and {self._share_of(made['revision']):.0%} of them in the A/B test {name}")
        return name

    def _share_of(self, revision: int) -> float:
        arms = self.ground.falaj("endpoint", "show", ENDPOINT, quietly=True)["arms"]
        return float(next(one["share"] for one in arms if one["revision"] == revision)) / WHOLE


def _is_apart(one: Flight) -> bool:
    return one.month not in WINTER and not one.scheduled.day % _APART
