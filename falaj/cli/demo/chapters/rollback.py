"""A model that learnt from mixed-up labels gets a small part of the calls, is found out, and goes back by itself."""

from typing import Final

from falaj.cli.demo.asking import load
from falaj.cli.demo.ground import ENDPOINT, MODEL, Ground
from falaj.cli.demo.playing import Step
from falaj.cli.demo.stage import expect

_SHARE: Final = 20  # per cent
_CALLS: Final = 500  # between two times that truths are told


class Rollback:
    def __init__(self, ground: Ground) -> None:
        self.ground, self.stage = ground, ground.stage
        self.bad = 0

    def steps(self) -> list[Step]:
        return [
            Step(
                title="Train a bad model",
                words="Its labels were mixed up on the way: it calls late what is in time. It looks like any other version.",
                play=self.trained,
            ),
            Step(
                title="Let it answer a fifth of the calls, as a canary",
                words="Every second it is asked whether it is worse, by evidence that may be looked at all the time.",
                play=self.went_back,
            ),
        ]

    def trained(self) -> str:
        ground = self.ground
        ground.made()
        known = ground.trained(ground.begin(ground.training, "mixed-up", "--upside-down"), "mixed-up")
        self.bad = ground.register(known)
        return f"{MODEL} {self.bad} is registered and signed; nothing about its file says that it is wrong"

    def went_back(self) -> str:
        ground = self.ground
        before = ground.falaj("endpoint", "show", ENDPOINT)["arms"]
        steps = ("--canary", str(_SHARE), "--steps", f"{_SHARE},50,100", "--every", "600")
        revision = ground.falaj("deploy", f"{MODEL}:{self.bad}", "--name", ENDPOINT, *steps)["revision"]
        with ground.ask() as ask, load(ask, ground.served, f"canary-{revision}") as asked:
            while ground.falaj("endpoint", "show", ENDPOINT, quietly=True)["arms"] != before:
                known = len(asked.answers)
                asked.wait_for(_CALLS)
                ground.tell_truths(asked.answers[known : known + _CALLS])
        answered = asked.seen()[revision]
        latest = ground.falaj("endpoint", "history", ENDPOINT)["items"][0]
        self.stage.say(f"{latest['kind']}: {latest['reason']}", "red")
        expect(latest["by"] is None or latest["by"]["name"] == "", f"It was taken back by {latest['by']}.")
        return (
            f"the canary answered {answered:,} of {len(asked.answers):,} calls, was worse, and went back by itself; none failed"
        )
