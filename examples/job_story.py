"""The demo's middle: two queues share one machine, lend to each other and take back, while three models are trained as jobs."""

import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from model_story import HERE, PROJECT, ModelStory
from stage import PATIENCE, Stage, expect

from falaj.client.http import Client
from falaj.jobs.operations.jobs import CANCEL_JOB, LIST_JOBS, READ_EVENTS, SHOW_JOB, Cancel, ListJobs, OneJob, ReadEvents

RESEARCH = "research"
TRAININGS = ("logistic", "forest", "boosting")
QUEUES = """\
[[cohort]]
name = "hospital"

[[queue]]
name = "{clinic}"
cohort = "hospital"
quota = {{ cpu = {half} }}
projects = ["{clinic}"]

[[queue]]
name = "{research}"
cohort = "hospital"
quota = {{ cpu = {half} }}
projects = ["{research}"]
"""


class JobStory:
    """Steps like those of `Demo`: noura of the clinic trains on what research does not use, until research wants it back."""

    def __init__(self, stage: Stage, models: ModelStory) -> None:
        self.stage, self.falaj, self.models = stage, stage.falaj, models
        self.half = 0.0
        self.trainings: dict[str, str] = {}  # ids of jobs by the name of the model
        stage.before_stopping = self.cancel_all

    def shared(self) -> str:
        """A queue says who is owed how much; within a cohort, what one does not use the others borrow."""
        self.models.join()
        self.falaj("project", "create", RESEARCH, "--zone", "home")
        invited = self.falaj("user", "create", "rashid")
        self.falaj("project", "member", "add", RESEARCH, "rashid", "scientist")
        self.models.tokens["rashid"] = self.stage.signed_in(invited["code"])
        cores = self.when(lambda: self.falaj("node", "list")["items"], "this host to be known")[0]["cpus"]
        self.half = cores / 2
        file = self.stage.folder / "queues.toml"
        file.write_text(QUEUES.format(clinic=PROJECT, research=RESEARCH, half=self.half))
        self.falaj("queue", "apply", str(file))
        return f"{PROJECT} and {RESEARCH} are owed {self.half:g} of {cores:g} cores each, and lend what they do not use"

    def trained(self) -> str:
        """Three trainings, each as large as the queue's whole share: one has it, one borrows, one waits and is told why."""
        folder = self.stage.folder / "training"
        folder.mkdir()
        for file in ("train_models.py", "training.lock"):
            shutil.copy(HERE / file, folder)
        for name in TRAININGS:
            self.trainings[name] = self.train(name, "fit", name)
        first, second, third = self.trainings.values()
        self.when(lambda: self.state(second) == "running", "the second training to run")
        reasons = [self.events(job, "starting")[-1] for job in (first, second)]
        self.stage.say(f"{TRAININGS[0]}: {reasons[0]} {TRAININGS[1]}: {reasons[1]}")
        expect("lend" in reasons[1], f"{TRAININGS[1]} did not borrow: {reasons[1]}.")
        why = self.job("why", third)
        self.stage.say(f"{TRAININGS[2]} waits: {why['sentence']}")
        eta = self.when(lambda: (found := self.job("eta", third))["expected"] and found, "a forecast of the third")
        span = f"{clock(eta['earliest'])} to {clock(eta['latest'])}" if eta["latest"] else f"{clock(eta['earliest'])} or later"
        self.stage.say(f"and is expected to start at {clock(eta['expected'])} ({span})")
        expect((why["state"], why["rule"]) == ("waiting", "quota"), f"It is not told why it waits: {why}.")
        return "one has the queue's own share, one borrows what research does not use, one waits and knows why and until when"

    def reclaimed(self) -> str:
        """Research wants its share: the training that borrowed it is asked to end, and runs again when there is room."""
        began = time.monotonic()
        size = ("--no-source", "--cpus", f"{self.half:g}", "--memory", "256MiB")
        work = "print(sum(number * number for number in range(10_000_000)))"
        made = self.falaj(
            *("job", "submit", "--project", RESEARCH, *size, "--", "python", "-c", work), token=self.models.tokens["rashid"]
        )
        research = made["job"]["id"]
        self.when(lambda: self.state(research, RESEARCH) in ("running", "done"), "research's own share to come back")
        took = time.monotonic() - began
        told = self.events(self.trainings[TRAININGS[1]], "stopping")
        expect(told, f"{TRAININGS[1]} was not asked to give back.")
        self.stage.say(f"{TRAININGS[1]} was told: {told[-1]}")
        for name, job in self.trainings.items():
            self.when(partial(self.is_done, job), f"{name} to be trained")
            self.stage.say(next(line for line in self.log(job) if " auc " in line))
        again = self.job("show", self.trainings[TRAININGS[1]])["attempts"]
        expect(again == 2, f"{TRAININGS[1]} was tried {again} times.")
        return f"research had its share back after {took:.1f} s; what had borrowed it gave back, and was trained after all"

    def registered(self) -> str:
        """The script registers the better two, again as a job, with a token that ends with it."""
        job = self.train("register", "register")
        self.when(lambda: self.state(job) == "done", "the models to be registered")
        told = json.loads(self.log(job)[-1])
        self.models.patients = told["patients"]
        runs = self.falaj("run", "list", "tumours", "--project", PROJECT, token=self.models.tokens["noura"])["items"]
        ended = {run["info"]["status"] for run in runs}
        expect(len(runs) == 3 and ended == {"FINISHED"}, f"There are {len(runs)} runs, which are {sorted(ended)}.")
        return f"3 runs with curves, data and ONNX models; {told['model']} registered as versions 1 and 2, signed"

    def cancel_all(self) -> None:
        """Jobs outlive the platform, so none is left when the demo ends early."""
        for project, who in ((PROJECT, "noura"), (RESEARCH, "rashid")):
            if who in self.models.tokens:
                with Client(self.stage.url, self.models.tokens[who]) as client:
                    self.cancel(client, project)

    def cancel(self, client: Client, project: str) -> None:
        live = ListJobs(project=project, state="live")
        for job in client.call(LIST_JOBS, live).items:
            client.call(CANCEL_JOB, Cancel(project=project, job=job.id))
        self.when(lambda: not client.call(LIST_JOBS, live).items, "jobs to end")

    # What the steps share

    def train(self, name: str, *arguments: str) -> str:
        files = (
            "--source",
            str(self.stage.folder / "training"),
            "--lock",
            str(self.stage.folder / "training" / "training.lock"),
        )
        size = ("--cpus", f"{self.half:g}", "--memory", "1GiB", "--takes", "10s")
        run = ("--experiment", "tumours") if arguments[0] == "fit" else ()
        made = self.job("submit", "--name", name, *files, *size, *run, "--", "python", "train_models.py", *arguments)
        return str(made["job"]["id"])

    def job(self, verb: str, *words: str) -> Any:
        return self.noura("job", verb, "--project", PROJECT, *words)

    def noura(self, *words: str) -> Any:
        return self.falaj(*words, token=self.models.tokens["noura"], patience=5 * PATIENCE)

    def is_done(self, job: str) -> bool:
        return self.state(job) == "done"

    def state(self, job: str, project: str = PROJECT) -> str:
        with Client(self.stage.url, self.models.tokens["noura" if project == PROJECT else "rashid"]) as client:
            found = client.call(SHOW_JOB, OneJob(project=project, job=job))
        expect(found.state not in ("failed", "cancelled"), f"The job {found.name} is {found.state}: {found.words}")
        return found.state

    def events(self, job: str, kind: str) -> list[str]:
        """What was told of it when it was that."""
        with Client(self.stage.url, self.models.tokens["noura"]) as client:
            found = client.call(READ_EVENTS, ReadEvents(project=PROJECT, job=job)).items
        return [event.words for event in found if event.kind == kind]

    def log(self, job: str) -> list[str]:
        return [line for line in self.job("logs", job)["text"].splitlines() if line]

    def when(self, look: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + 5 * PATIENCE  # environments are made first
        while not (found := look()):
            expect(time.monotonic() < deadline, f"Waited {5 * PATIENCE:g} s for {what}.")
            time.sleep(0.2)
        return found


def clock(moment: str) -> str:
    return moment[11:19]
