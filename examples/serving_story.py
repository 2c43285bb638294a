"""The demo's third part: the champion in production, a canary under load, the way back, and answers without a control plane."""

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from model_story import HERE, MODEL, PROJECT, ModelStory
from stage import CLIENTS, PATIENCE, Stage, expect

ENDPOINT = "tumours"
CANARY = 20  # per cent


class ServingStory:
    """Steps like those of `Demo`: noura deploys what she trained, and a program of the clinic asks it."""

    def __init__(self, stage: Stage, models: ModelStory) -> None:
        self.stage, self.models = stage, models
        self.url, self.key = "", ""

    def deployed(self) -> str:
        """One command; the answers are the same in plain records, over REST and over gRPC."""
        made = self.falaj("deploy", f"{MODEL}@champion", "--name", ENDPOINT)
        self.url = made["endpoint"]["url"]
        served = made["endpoint"]["revisions"][0]
        expect((made["revision"], served["version"]) == (1, 1), "The endpoint does not run the champion.")
        self.key = self.falaj("endpoint", "key", "create", "clinic-app", "--endpoint", ENDPOINT)["token"]

        patients = self.models.patients
        self.written("patients.json", patients)
        plain = self.falaj("predict", ENDPOINT, f"@{self.stage.folder}/patients.json")["predictions"]
        for name, answer in self.script([list(patient.values()) for patient in patients]).items():
            self.stage.say(
                f"tritonclient, {name}: malignant {shown(answer['probabilities'])}, by revision {answer['revision']}"
            )
            alike = answer["probabilities"] == [one["probabilities"] for one in plain]
            expect(alike and answer["revision"] == "1", f"Over {name} the answer is another: {answer}, not {plain}.")
        stranger = httpx.post(f"{self.url}/v2/endpoints/{ENDPOINT}/predict", json=patients, trust_env=False)
        expect(stranger.status_code == 401, f"Somebody without a token was answered with {stranger.status_code}.")
        return "version 1 answers in plain records, over REST and gRPC alike, on one port; without a token it is 401"

    def canary(self) -> str:
        """A new version gets a small part of the calls, while a program goes on calling."""
        with self.load() as load:
            load.wait_for(50)
            self.falaj("deploy", f"{MODEL}:2", "--name", ENDPOINT, "--canary", str(CANARY))
            before = load.seen()
            load.wait_for(500)
            fresh = load.seen() - before
        share = fresh["2"] / fresh.total()
        expect(CANARY / 200 < share < CANARY / 66, f"The canary got {share:.0%} of the calls.")
        self.stage.say(f"{load.seen().total()} calls; then revision 2 got {share:.0%} of {fresh.total()}")
        return f"version 2 answers {CANARY} % of the calls; none failed, none was answered by the wrong model"

    def rolled_back(self) -> str:
        """From the moment the command returns, nobody is answered by the canary."""
        with self.load() as load:
            load.wait_for(50)
            self.falaj("endpoint", "rollback", ENDPOINT, "--reason", "a demo", "--yes")
            before = load.seen()
            load.wait_for(200)
            fresh = load.seen() - before
        expect(fresh["2"] <= 1, f"{fresh['2']} calls were answered by the canary after the rollback.")  # one was on its way
        latest = self.falaj("endpoint", "history", ENDPOINT)["items"][0]
        expect((latest["kind"], latest["by"]["name"]) == ("rollback", "noura"), f"The history ends with {latest['kind']}.")
        return f"all of the next {fresh.total()} calls went to version 1 again; none failed; the history says who and why"

    def alone(self) -> str:
        """The plane answers by its last signed state, and the next control plane finds it again."""
        with self.load() as load:
            load.wait_for(50)
            self.stage.kill()
            self.stage.say("killed with SIGKILL: there is no control plane now")
            before = load.seen()
            load.wait_for(300)
            fresh = load.seen() - before
            took = self.stage.start()
            self.wait_until_ready()
            load.wait_for(50)
        return f"{fresh.total()} predictions without a control plane, none failed; it was back after {took:.1f} s"

    # What the steps share

    def falaj(self, *words: str) -> Any:
        return self.stage.falaj(*words, "--project", PROJECT, token=self.models.tokens["noura"])

    def wait_until_ready(self) -> None:
        """The plane is found again with what it said a moment ago, or says it anew within a few seconds."""
        deadline = time.monotonic() + PATIENCE
        while not (found := self.falaj("endpoint", "show", ENDPOINT))["ready"]:
            expect(time.monotonic() < deadline, f"The control plane does not find the plane again: {found['problems']}")
        expect(found["url"] == self.url, f"The endpoint has moved to {found['url']}.")

    def script(self, rows: list[list[float]]) -> Any:
        file = self.written("rows.json", rows)
        self.stage.say("$ python ask_model.py HOST:PORT tumours rows.json", "dim")
        done = subprocess.run(
            [
                str(CLIENTS / "demo" / "bin" / "python"),
                str(HERE / "ask_model.py"),
                self.url.removeprefix("http://"),
                ENDPOINT,
                file,
            ],
            env=os.environ | {"INFERENCE_TOKEN": self.key},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        expect(done.returncode == 0, f"The script failed: {done.stderr.strip()[-800:]}")
        return json.loads(done.stdout)

    def written(self, name: str, content: Any) -> str:
        file = self.stage.folder / name
        file.write_text(json.dumps(content))
        return str(file)

    @contextmanager
    def load(self) -> Iterator["Load"]:
        """A program that asks all the time. Whatever went wrong in one of its calls fails the step."""
        load = Load(f"{self.url}/v2/endpoints/{ENDPOINT}/predict", self.key, self.models.patients[0])
        load.start()
        try:
            yield load
        finally:
            load.ending.set()
            load.join()
        expect(not load.failures, f"{len(load.failures)} calls failed, the first with: {load.failures[:1]}")
        expect(all(len(answers) == 1 for answers in load.answers.values()), "A revision gave two answers to one question.")
        expect(len({*map(str, load.answers.values())}) == len(load.answers), "Two revisions gave the same answer.")


class Load(threading.Thread):
    """Asks the same question again and again; how often which revision answered, and with what."""

    def __init__(self, url: str, key: str, patient: dict[str, float]) -> None:
        super().__init__(daemon=True)
        self._url, self._patient = url, patient
        self._headers = {"authorization": f"Bearer {key}"}
        self.ending = threading.Event()
        self._seen: Counter[str] = Counter()
        self.answers: dict[str, set[str]] = {}
        self.failures: list[str] = []

    def run(self) -> None:
        with httpx.Client(headers=self._headers, trust_env=False, timeout=PATIENCE) as http:
            while not self.ending.wait(0.002):
                try:
                    answer = http.post(self._url, json=self._patient)
                except httpx.TransportError as error:
                    self.failures.append(repr(error))
                    continue
                if answer.status_code != 200:
                    self.failures.append(f"{answer.status_code} {answer.text}")
                    continue
                revision = answer.headers["x-falaj-revision"]
                self._seen[revision] += 1
                self.answers.setdefault(revision, set()).add(str(answer.json()["predictions"]))

    def seen(self) -> Counter[str]:
        return Counter(self._seen)

    def wait_for(self, more: int) -> None:
        wanted, deadline = self.seen().total() + more, time.monotonic() + PATIENCE
        while self.seen().total() < wanted:
            expect(time.monotonic() < deadline and not self.failures, f"Calls are not answered: {self.failures[:1]}")
            time.sleep(0.02)


def shown(probabilities: list[list[float]]) -> str:
    return ", ".join(f"{malignant:.3f}" for malignant, _ in probabilities)
