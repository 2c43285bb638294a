"""What the story and the chapters stand on: flights and weather in a project, features of what was known, versions of one
model, and an endpoint that serves the best. The story makes it step by step; a chapter that is run alone has a small one made.
"""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from falaj.base.values import value
from falaj.cli.demo import flights as packed
from falaj.cli.demo.asking import Answer, Ask, Question
from falaj.cli.demo.flights import WEATHER, Flight
from falaj.cli.demo.stage import Stage, copied, expect
from falaj.client.datasets import dataset

PROJECT: Final = "airport"
MODEL: Final = "late-arrival"
ENDPOINT: Final = "late"
VIEWS: Final = ("carriers", "origins", "weather")
SCRIPT: Final = Path(__file__).parent / "scripts" / "train_late.py"
AGAIN: Final = SCRIPT.with_name("again.py")
CHECK: Final = SCRIPT.with_name("check_proof.py")
NOT_ASKED: Final = frozenset({"id", "month", "carrier", "origin", "asked", "late"})
_VIEWS: Final = """\
[[view]]
name = "carriers"
dataset = "flights"
keys = ["carrier"]
event = "scheduled"
known = "landed"

[view.features]
carrier_delay_12h = {{ column = "delay", function = "mean", period = "12h" }}

[[view]]
name = "origins"
dataset = "flights"
keys = ["origin"]
event = "scheduled"
known = "landed"

[view.features]
origin_delay_3h = {{ column = "delay", function = "mean", period = "3h" }}
origin_landed_3h = {{ column = "delay", function = "count", period = "3h" }}

[[view]]
name = "weather"
dataset = "weather"
keys = ["origin"]
event = "measured"
known = "measured"

[view.features]
{weather}
"""


@value
class Trained:
    """`auc` is of days that the model had not seen, with its interval; `digest` is of the model's file."""

    name: str
    run: str
    rows: int
    auc: float
    low: float
    high: float
    digest: str

    @property
    def words(self) -> str:
        return f"area under the curve {self.auc:.3f} (95 %: {self.low:.3f} to {self.high:.3f})"


@value
class Version:
    number: int
    trained: Trained


class Ground:
    """`versions` are what was registered so far; the last one that was promoted is the champion."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.flights: list[Flight] = []
        self.versions: dict[int, Version] = {}
        self.champion = 0
        self.url, self.key = "", ""
        self.served: list[Question] = []  # of flights that no model has learnt from
        self.training, self.held_out = "", ""  # datasets: what the champion has learnt from, and what no model has

    def falaj(self, *words: str, **ending: Any) -> Any:
        return self.stage.falaj(*words, "--project", PROJECT, **ending)

    @property
    def former(self) -> int:
        """The version before the champion."""
        return max(number for number in self.versions if number != self.champion)

    def ask(self) -> Ask:
        return Ask(self.url, ENDPOINT, self.key)

    def made(self) -> None:
        """A small one, of January: where the story has not been played there is none yet."""
        if self.champion:
            return
        self.stage.say("(first what this chapter stands on: January, two models, an endpoint)", "dim")
        self.flights = packed.flights()
        january = [one for one in self.flights if one.month == 1]
        self.open_project()
        self.bring(january)
        self.define_views()
        self.training_set("training", [one for one in january if one.id % 5])
        self.training_set("later", [one for one in january if not one.id % 5])
        baseline, booster = self.begin("training", "baseline"), self.begin("training", "booster", "--trials", "1")
        for job, name in ((baseline, "baseline"), (booster, "booster")):
            self.register(self.trained(job, name))
        self.promote(2)
        self.deploy(2)
        self.training, self.held_out = "training", "later"
        self.served = self.questions("later")

    # Data

    def open_project(self) -> None:
        self.stage.falaj("project", "create", PROJECT, "--zone", "home")

    def bring(self, some: list[Flight]) -> dict[str, Any]:
        packed.write_weather(self.stage.folder / "weather.csv")
        self.falaj("dataset", "import", "weather", str(self.stage.folder / "weather.csv"))
        return self.deliver(some, "flights.csv")

    def deliver(self, some: list[Flight], name: str) -> dict[str, Any]:
        packed.write_flights(some, self.stage.folder / name)
        return dict(self.falaj("dataset", "import", "flights", str(self.stage.folder / name)))

    def define_views(self) -> None:
        weather = "\n".join(f'{name} = {{ column = "{name}" }}' for name in WEATHER)
        self.falaj("feature", "apply", self.stage.written("features.toml", _VIEWS.format(weather=weather)))

    def training_set(self, name: str, some: Iterable[Flight]) -> dict[str, Any]:
        """Asked an hour before each of these flights; what was known then is joined to it."""
        self.asked(name, some)
        return self.joined(f"{name}-asked", name, VIEWS)

    def asked(self, name: str, some: Iterable[Flight]) -> None:
        file = self.stage.folder / f"{name}-asked.csv"
        packed.write_questions(some, file)
        self.falaj("dataset", "import", f"{name}-asked", str(file))

    def joined(self, labels: str, into: str, views: Iterable[str]) -> dict[str, Any]:
        wanted = [word for view in views for word in ("--feature", view)]
        return dict(self.falaj("feature", "training-set", labels, into, "--time", "asked", *wanted)["version"])

    def questions(self, name: str) -> list[Question]:
        """The rows of a training set as an application would ask them, with what became of each flight."""
        with self.stage.client() as client:
            table = dataset(name, project=PROJECT, client=client).arrow()
        asked = [column for column in table.column_names if column not in NOT_ASKED]
        told = zip(*(table.column(column).to_pylist() for column in ("id", "month", "late")), strict=True)
        rows = table.select(asked).to_pylist()
        return [
            Question(id=id, month=month, late=late, record=record) for (id, month, late), record in zip(told, rows, strict=True)
        ]

    # Models

    def begin(self, reference: str, name: str, *arguments: str) -> str:
        """A training as a job. What it reads is said, so that lineage and monitors know what the model knows of the world."""
        data = self.falaj("dataset", "show", reference, quietly=True)
        script = copied(SCRIPT, self.stage.folder / "training")
        wanted = ("--name", name, "--experiment", ENDPOINT, "--memory", "1GiB", "--reads", f"dataset={data['lineage']}")
        return self.stage.submitted(
            PROJECT, "train", str(script), *wanted, after=(f"{data['dataset']}@{data['version']}", *arguments)
        )

    def trained(self, job: str, name: str) -> Trained:
        self.stage.ended(PROJECT, job)
        told = json.loads(self.falaj("job", "logs", job, quietly=True)["text"].strip().splitlines()[-1])
        run = self.falaj("job", "show", job, quietly=True)["run"]
        figures = {figure: told[figure] for figure in ("rows", "auc", "low", "high")}
        return Trained(name=name, run=run, digest=told["model"], **figures)

    def pipeline(self, file: Path) -> None:
        """Written down and kept; the training script goes along."""
        copied(SCRIPT, self.stage.folder / "training")
        self.falaj("pipeline", "apply", str(copied(file, self.stage.folder / "training")))

    def made_by(self, run: str, step: str, name: str) -> int:
        """The version that a step of a pipeline's run made."""
        made = self.reached(run, step)
        number = int(made["result"]["version"])
        self.versions[number] = Version(number=number, trained=self.trained(made["job"], name))
        return number

    def reached(self, run: str, step: str, state: str = "done") -> Any:
        """A step of a pipeline's run, once it is so far."""

        def look() -> Any:
            steps = self._going_on(run)["steps"]
            return next((one for one in steps if (one["name"], one["state"]) == (step, state)), None)

        return self.stage.until(look, f"the pipeline's {step} to be {state}")

    def over(self, run: str) -> Any:
        """A run of a pipeline, once all of it is done."""

        def look() -> Any:
            found = self._going_on(run)
            return found if found["state"] == "done" else None

        return self.stage.until(look, "the pipeline to end")

    def _going_on(self, run: str) -> Any:
        found = self.falaj("pipeline", "show", run, quietly=True)
        expect(found["state"] in ("running", "done"), f"The pipeline is {found['state']}: {found['words']}")
        return found

    def register(self, trained: Trained) -> int:
        if not self.versions:
            self.falaj("model", "create", MODEL)
        made = self.falaj("model", "register", MODEL, trained.run, "model", "--description", trained.name)
        self.versions[made["version"]] = Version(number=made["version"], trained=trained)
        return int(made["version"])

    def promote(self, number: int) -> None:
        self.falaj("model", "promote", MODEL, str(number))
        self.champion = number

    # Serving

    def deploy(self, number: int) -> dict[str, Any]:
        """All its answers are logged, so that what became of the flights can be told later."""
        made = self.falaj("deploy", f"{MODEL}:{number}", "--name", ENDPOINT)
        self.url = made["endpoint"]["url"]
        self.falaj("endpoint", "configure", ENDPOINT, "--log-percent", "100")
        self.key = self.falaj("endpoint", "key", "create", "airport-app", "--endpoint", ENDPOINT)["token"]
        return dict(made)

    def tell_truths(self, answers: Iterable[Answer]) -> None:
        """What became of these flights, as soon as the calls are known: planes tell of them every few seconds."""
        rows = "".join(f"{one.id},{one.question.late}\n" for one in answers)
        file = self.stage.written("labels.csv", "id,row,truth\n" + rows)
        self.stage.say(f"$ falaj labels add {ENDPOINT} labels.csv --project {PROJECT}", "dim")
        self.stage.until(partial(self._are_taken, file), "the calls to be known")

    def _are_taken(self, file: str) -> bool:
        return not self.falaj("labels", "add", ENDPOINT, file, quietly=True)["unknown"]
