"""The champion made small: candidates are made and measured here, the best is certified on flights it never saw, and served."""

import json
from typing import Any, Final

from falaj.cli.demo.ground import ENDPOINT, MODEL, PROJECT, Ground
from falaj.cli.demo.playing import Step
from falaj.cli.demo.stage import expect

_STEPS: Final = ("trees:40", "trees:25")
_SMALL: Final = f"{ENDPOINT}-small"


class Certificate:
    def __init__(self, ground: Ground) -> None:
        self.ground, self.stage = ground, ground.stage
        self.best: dict[str, Any] = {}

    def steps(self) -> list[Step]:
        return [
            Step(
                title="Make the champion small, with a certificate",
                words="What is claimed of a small form is shown on rows that nothing learnt from, and signed.",
                play=self.certified,
            ),
            Step(
                title="Serve the certified variant",
                words="It is deployed like any version, held to its certificate, and says which variant answered.",
                play=self.served,
            ),
        ]

    def certified(self) -> str:
        ground = self.ground
        ground.made()
        wished = [word for step in _STEPS for word in ("--only", step)]
        data = ("--on", ground.training, "--held-out", ground.held_out, "--truth", "late", "--memory", "2GiB")
        job = self.stage.submitted(PROJECT, "optimise", f"{MODEL}@champion", *data, *wished)
        self.stage.ended(PROJECT, job)
        for one in ground.falaj("model", "variants", MODEL, "champion")["items"]:
            times = f"{one['measures']['times']:.1f} times as fast" if one["measures"] else one["reason"]
            self.stage.say(f"{one['name']}: {one['state']}, {times}")
            self.best = one if one["best"] else self.best
        expect(self.best, "No variant of the champion was certified.")
        held = ground.falaj("model", "certificate", MODEL, "champion", self.best["name"])
        said, quality = held["document"], held["document"]["quality"]
        expect(held["valid"] and held["fit"], f"The certificate does not hold: {held['problems']}")
        self.stage.say(
            f"certificate {held['digest'][:16]}: {said['data']['held_out']['rows']:,} flights that nothing learnt from,"
        )
        self.stage.say(
            f"agreement {float(quality['agreement']):.1%}, at most {float(quality['overall']['high']):.2%} worse (95 %)"
        )
        times = self.best["measures"]["times"]
        return f"{self.best['name']} of version {self.best['version']} is certified, {times:.1f} times as fast"

    def served(self) -> str:
        ground = self.ground
        chosen = f"{MODEL}:{self.best['version']}"
        ground.falaj("deploy", chosen, "--name", _SMALL, "--variant", "best")
        file = self.stage.written("flight.json", json.dumps([one.record for one in ground.served[:200]]))
        small = ground.falaj("predict", _SMALL, f"@{file}")["predictions"]
        ground.falaj("deploy", chosen, "--name", f"{_SMALL}-original")
        large = ground.falaj("predict", f"{_SMALL}-original", f"@{file}")["predictions"]
        alike = sum(one["label"] == other["label"] for one, other in zip(small, large, strict=True))
        expect(alike >= 0.95 * len(large), f"The variant answers otherwise for {len(large) - alike} of {len(large)} flights.")
        return f"{self.best['name']} answers for {len(large)} flights, for {alike} of them the same as the original"
