"""The demo's search and its accident: a model is tuned, and a training that is killed ends as if it had not been."""

import os
import shutil
import signal
from functools import partial
from pathlib import Path

from job_story import JobStory
from model_story import HERE, PROJECT
from stage import expect

from falaj.client.http import Client
from falaj.jobs.operations.jobs import READ_LOG, ReadLog

STUDY = "tumours tuned"
MODEL = "tumour-tuned"
TRIALS = 4


class TrainingStory:
    """Steps like those of `Demo`: noura searches for better parameters, and pulls the plug on a training."""

    def __init__(self, jobs: JobStory) -> None:
        self.stage, self.jobs = jobs.stage, jobs

    def tuned(self) -> str:
        """Each trial is a job; what is tried next depends on what came out; the best one's model becomes a version."""
        folder = self.stage.folder / "training"
        shutil.copy(HERE / "tune_tumours.py", folder)
        space = ("--set", "alpha=log:1e-5..1", "--set", "rate=log:1e-3..1", "--metric", "auc:max", "--pruner", "median")
        size = ("--trials", str(TRIALS), "--parallel", "2", "--cpus", f"{self.jobs.half:g}", "--memory", "1GiB")
        files = ("--source", str(folder), "--lock", str(folder / "training.lock"))
        what = ("tune", "run", "--project", PROJECT, "--name", STUDY, "--register", MODEL)
        told = self.jobs.noura(*what, *space, *size, *files, "--", "tune_tumours.py")
        for trial in told["trials"]:
            chosen = ", ".join(f"{name} {value:.2g}" for name, value in trial["params"].items())
            result = f"auc {trial['values'][0]:.4f}" if trial["state"] == "complete" else trial["state"]
            self.stage.say(f"trial {trial['number']}: {chosen}: {result}{', the best' if trial['best'] else ''}")
        best = [trial for trial in told["trials"] if trial["best"]]
        expect(
            len(told["trials"]) == TRIALS and len(best) == 1, f"There are {len(told['trials'])} trials, {len(best)} the best."
        )
        (version,) = self.jobs.noura("model", "versions", MODEL, "--project", PROJECT)["items"]
        expect(version["run"] == best[0]["run"], "Another trial than the best was registered.")
        return f"{TRIALS} trials as jobs under the queue's share; the best one's model is {MODEL} {version['version']}"

    def resumed(self) -> str:
        """kill -9 in the middle: the job goes on from its last sealed checkpoint, with the losses of one left alone."""
        folder = self.stage.folder / "training"
        shutil.copy(HERE / "train_digits.py", folder)
        first, second = (self._train(name) for name in ("left alone", "killed"))
        self.jobs.when(lambda: "step 20 " in self._written(second), "twenty steps")
        os.kill(process_of("killed"), signal.SIGKILL)
        for job in (first, second):
            self.jobs.when(partial(self.jobs.is_done, job), "a training to end")
        alone, killed = self.jobs.log(first), self.jobs.log(second)
        went_on = next(line for line in killed if line.startswith("goes on"))
        self.stage.say(f"killed with SIGKILL after more than twenty steps; the second try {went_on}")
        expect(alone[-1].startswith("curve ") and alone[-1] == killed[-1], f"{alone[-1]} is not {killed[-1]}.")
        return "the same 60 losses, to the last bit, with a kill -9 between them and without"

    def _train(self, name: str) -> str:
        folder = self.stage.folder / "training"
        files = (str(folder / "train_digits.py"), "--lock", str(folder / "training.lock"))
        size = ("--cpus", f"{self.jobs.half:g}", "--memory", "512MiB", "--experiment", "digits")
        return str(self.jobs.noura("train", "--project", PROJECT, *files, "--name", name, *size, "--", name)["job"]["id"])

    def _written(self, job: str) -> str:
        with Client(self.stage.url, self.jobs.models.tokens["noura"]) as client:
            return client.call(READ_LOG, ReadLog(project=PROJECT, job=job)).text


def process_of(word: str) -> int:
    """Of the script that was given this word; it runs in a sandbox of this host."""
    for one in Path("/proc").iterdir():
        if one.name.isdecimal():
            words = (one / "cmdline").read_bytes().split(b"\0")
            if words[-2:-1] == [word.encode()] and b"train_digits.py" in words[1]:
                return int(one.name)
    raise LookupError(word)
