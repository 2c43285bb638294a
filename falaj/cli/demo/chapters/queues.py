"""Two teams share this machine: what one does not use the other borrows, and it comes back when its owner wants it."""

import time
from typing import Any, Final

from falaj.cli.demo.ground import Ground
from falaj.cli.demo.playing import Step
from falaj.cli.demo.stage import expect
from falaj.jobs.operations.jobs import READ_EVENTS, ReadEvents

_TEAMS: Final = ("flying", "research")
_QUEUES: Final = """\
[[cohort]]
name = "institute"
"""
_QUEUE: Final = """
[[queue]]
name = "{team}"
cohort = "institute"
quota = {{ cpu = {half} }}
projects = ["{team}"]
"""
_ONE_FOR_ALL: Final = '[[queue]]\nname = "default"\n'  # as a platform begins
# As long as a small training: some seconds of one core.
_WORK: Final = "import time; began = time.time(); any(iter(lambda: time.time() - began > {seconds}, True))"


class Queues:
    """Noura of the team flying trains on what research does not use, until rashid of research wants it back."""

    def __init__(self, ground: Ground) -> None:
        self.stage = ground.stage
        self.tokens: dict[str, str] = {}
        self.jobs: dict[str, str] = {}

    def steps(self) -> list[Step]:
        return [
            Step(
                title="Share this machine between two teams",
                words="A queue says who is owed how much; within a cohort, what one does not use the others borrow.",
                play=self.shared,
            ),
            Step(
                title="Want more than one's share, and ask why a job waits",
                words="Three trainings, each as large as the team's whole share.",
                play=self.waited,
            ),
            Step(
                title="Take a lent share back",
                words="The owner wants it. Whoever borrowed is asked to end (set so here; usually not in its first minute).",
                play=self.taken_back,
            ),
        ]

    def shared(self) -> str:
        for team, name in zip(_TEAMS, ("captain", "rashid"), strict=True):
            self.stage.falaj("project", "create", team, "--zone", "home")
            self.tokens[team] = self.stage.person(name, team, "engineer")
        cores = self.stage.until(lambda: self.stage.falaj("node", "list", quietly=True)["items"], "this host to be known")
        self.half = cores[0]["cpus"] / 2
        written = _QUEUES + "".join(_QUEUE.format(team=team, half=self.half) for team in _TEAMS)
        self.stage.falaj("queue", "apply", self.stage.written("queues.toml", written))
        return (
            f"{' and '.join(_TEAMS)} are owed {self.half:g} of {cores[0]['cpus']:g} cores each, and lend what they do not use"
        )

    def waited(self) -> str:
        for name, seconds in (("first", 15), ("second", 8), ("third", 2)):
            self.jobs[name] = self._submitted("flying", name, seconds=seconds)
        self.stage.until(lambda: self._state("second") == "running", "the second training to run", every=0.05)
        first, second = (self._events(name, "starting")[-1] for name in ("first", "second"))
        self.stage.say(f"first: {first}")
        self.stage.say(f"second: {second}")
        expect("lend" in second, f"The second did not borrow: {second}")
        why = self._job("why", self.jobs["third"])
        self.stage.say(f"third waits: {why['sentence']}")
        expect((why["state"], why["rule"]) == ("waiting", "quota"), f"It is not told why it waits: {why}.")
        eta = self.stage.until(self._expected, "a forecast of the third")
        self.stage.say(f"and is expected to start at {eta['expected'][11:19]} (UTC)")
        return "one has the team's own share, one borrows what research does not use, one waits and knows why and until when"

    def taken_back(self) -> str:
        began = time.monotonic()
        own = self._submitted("research", "own", seconds=2)
        token = self.tokens["research"]
        self.stage.until(lambda: self.stage.state("research", own, token) in ("running", "done"), "the share to come back")
        took = time.monotonic() - began
        told = {name: words[-1] for name in self.jobs if (words := self._events(name, "stopping"))}
        expect(len(told) == 1, f"One should have been asked to give back, and it was {list(told) or 'none'}.")
        ((name, asked),) = told.items()
        self.stage.say(f"the {name} was told: {asked}")
        for job in self.jobs.values():
            self.stage.ended("flying", job, self.tokens["flying"])
        again = self._job("show", self.jobs[name])["attempts"]
        expect(again == 2, f"It was tried {again} times.")
        self.stage.falaj("queue", "apply", self.stage.written("one-queue.toml", _ONE_FOR_ALL))
        return f"research had its share back after {took:.1f} s; what had borrowed it gave back, and was trained after all"

    # What the steps share

    def _submitted(self, team: str, name: str, *, seconds: int) -> str:
        size = ("--no-source", "--cpus", f"{self.half:g}", "--memory", "256MiB", "--takes", f"{seconds}s", "--grace", "2")
        work = ("python", "-c", _WORK.format(seconds=seconds))
        return self.stage.submitted(team, "job", "submit", "--name", name, *size, after=work, token=self.tokens[team])

    def _job(self, verb: str, job: str) -> Any:
        return self.stage.falaj("job", verb, job, "--project", "flying", token=self.tokens["flying"])

    def _expected(self) -> Any:
        found = self.stage.falaj(
            "job", "eta", self.jobs["third"], "--project", "flying", token=self.tokens["flying"], quietly=True
        )
        return found if found["expected"] else None

    def _state(self, name: str) -> str:
        return self.stage.state("flying", self.jobs[name], self.tokens["flying"])

    def _events(self, name: str, kind: str) -> list[str]:
        """What was told of it when it was that."""
        with self.stage.client(self.tokens["flying"]) as client:
            found = client.call(READ_EVENTS, ReadEvents(project="flying", job=self.jobs[name])).items
        return [event.words for event in found if event.kind == kind]
