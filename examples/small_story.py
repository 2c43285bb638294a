"""The demo's champion made small: searched for as a job, certified on patients it never saw, and served."""

import json
import subprocess
import time
from typing import Any

from model_story import HERE, MODEL, PROJECT, ModelStory
from serving_story import ServingStory
from stage import CLIENTS, PATIENCE, Stage, expect

from falaj.client.http import Client
from falaj.jobs.operations.jobs import SHOW_JOB, OneJob

ENDPOINT = "tumours-small"
STEPS = ("trees:30", "trees:20")
MAX_DROP = "3%"  # 171 patients cannot show less


class SmallStory:
    """Steps like those of `Demo`. Version 2, an ensemble of 60 trees, is the champion when it is searched."""

    def __init__(self, stage: Stage, models: ModelStory, serving: ServingStory) -> None:
        self.stage, self.models, self.serving = stage, models, serving
        self.best: dict[str, Any] = {}

    def certified(self) -> str:
        """Candidates are made and measured on this CPU; what is claimed of the best is shown on rows nothing learnt from."""
        self._patients()
        wished = [word for step in STEPS for word in ("--only", step)]
        asked = self.falaj(
            "optimise", f"{MODEL}@champion", "--on", "tumours-known", "--held-out", "tumours-later", "--truth", "benign",
            "--max-drop", MAX_DROP, "--memory", "2GiB", *wished,
        )  # fmt: skip
        job = asked["job"]["id"]
        state = self._ended(job)
        expect(state == "done", f"The search is {state}; its job is {job}.")
        found = self.falaj("model", "variants", MODEL, "champion")["items"]
        for one in found:
            times = f"{one['measures']['times']:.1f} times as fast" if one["measures"] else one["reason"]
            self.stage.say(f"{one['name']}: {one['state']}, {times}")
        self.best = next((one for one in found if one["best"]), {})
        expect(self.best, "No variant of the champion was certified.")
        held = self.falaj("model", "certificate", MODEL, "champion", self.best["name"])
        said, quality = held["document"], held["document"]["quality"]
        expect(held["valid"] and held["fit"], f"The certificate does not hold: {held['problems']}")
        self.stage.say(f"certificate {held['digest'][:16]}: {said['data']['held_out']['rows']} patients of tumours-later,")
        self.stage.say(
            f"agreement {float(quality['agreement']):.1%}, at most {float(quality['overall']['high']):.2%} worse (95 %),"
        )
        self.stage.say(f"{said['latency']['variant']['p50_ms']} ms a row on {said['host']['shown']}")
        times = self.best["measures"]["times"]
        return f"{self.best['name']} of version {self.best['version']} is certified, {times:.1f} times as fast"

    def served(self) -> str:
        """It is deployed like any version, held to its certificate, and says which variant answered."""
        chosen = f"{MODEL}:{self.best['version']}"
        made = self.falaj("deploy", chosen, "--name", ENDPOINT, "--variant", "best")
        self.falaj("deploy", chosen, "--name", f"{ENDPOINT}-original")
        file = self.serving.written("small.json", self.models.patients)
        said = self.falaj("predict", ENDPOINT, f"@{file}")
        plain = self.falaj("predict", f"{ENDPOINT}-original", f"@{file}")["predictions"]
        alike = [one["label"] for one in said["predictions"]] == [one["label"] for one in plain]
        expect(alike, f"The variant answers otherwise: {json.dumps(said)[:300]}")
        return f"{self.best['name']} answers for {len(plain)} patients as the original does, as revision {made['revision']}"

    def _ended(self, job: str) -> str:
        deadline = time.monotonic() + 3 * PATIENCE
        with Client(self.stage.url, self.models.tokens["noura"]) as client:
            while (state := client.call(SHOW_JOB, OneJob(project=PROJECT, job=job)).state) not in (
                "done",
                "failed",
                "cancelled",
            ):
                expect(time.monotonic() < deadline, f"The search is {state} after {3 * PATIENCE:g} s.")
                time.sleep(0.5)
        return str(state)

    def _patients(self) -> None:
        taken = subprocess.run(
            [str(CLIENTS / "demo" / "bin" / "python"), str(HERE / "take_tumours.py"), str(self.stage.folder)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        expect(taken.returncode == 0, f"The patients could not be taken out of their package: {taken.stderr.strip()[-400:]}")
        for name in ("known", "later"):
            self.falaj("dataset", "import", f"tumours-{name}", str(self.stage.folder / f"{name}.csv"))

    def falaj(self, *words: str) -> Any:
        return self.stage.falaj(*words, "--project", PROJECT, token=self.models.tokens["noura"])
