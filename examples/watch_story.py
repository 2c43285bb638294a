"""The demo's watch: an endpoint on real flights, the summer it was not made for, and a better model that proves to be one."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import httpx
from model_story import HERE
from stage import CLIENTS, PATIENCE, Stage, expect

PROJECT = "airport"
MODEL = "late-arrival"
ENDPOINT = "late"
WINDOW = 4  # seconds
TOGETHER = 40  # rows of one call
LABELLED = 400  # calls, between two looks at the A/B test


class WatchStory:
    """Steps like those of `Demo`, by the owner: trained on January, asked in January and in July."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.url, self.key = "", ""

    def watched(self) -> str:
        """What a revision is asked is held against what it learnt from, inside the serving plane."""
        self._trained()
        self.dataset("import", "winter", str(self.stage.folder / "winter.csv"))
        made = self.falaj("deploy", f"{MODEL}:1", "--name", ENDPOINT)
        self.url = made["endpoint"]["url"]
        self.key = self.falaj("endpoint", "key", "create", "airport-app", "--endpoint", ENDPOINT)["token"]
        self.falaj("endpoint", "configure", ENDPOINT, "--log-percent", "100")
        wished = ("--reference", "winter", "--window", str(WINDOW), "--ignore", "late")
        watched = self.falaj("monitor", "apply", ENDPOINT, *wished, "--objective", "availability=99.9%")
        wishes = watched["wishes"]
        return f"against winter@1, every {wishes['window']} s, at most one false alarm in {wishes['one_in']:,} windows"

    def alarmed(self) -> str:
        """More January: nothing. July: an alert that says what changed, by how much and since when."""
        calm, rows = self._asked("january"), len(self._flights("january")[0])
        windows = self._until(lambda: self._closed(calm, rows), "the windows of January to be closed")
        expect(not self._alerts(), f"January is taken for something else: {self._alerts()}")
        self.stage.say(f"January: {sum(one['rows'] for one in windows):,} rows in {len(windows)} windows, no alert")
        self._asked("july")
        alert = self._until(self._july, "July to be noticed by what is warmer")
        self.stage.say(f"July: {alert['title']}", "red")
        for sentence in alert["sentences"]:
            self.stage.say(sentence)
        named = {one["column"] for one in alert["columns"]}
        leaf = self._until(lambda: self.stage.falaj("audit", "log", "--operation", "alert.raise")["items"], "the alert's leaf")
        expect(any(one["facts"]["alert"] == alert["id"] for one in leaf), "The ledger tells of another alert.")
        self.falaj("alert", "acknowledge", alert["id"])
        return f"no alert in January; July found by {', '.join(sorted(named)[:4])}, on record, and seen to"

    def tested(self) -> str:
        """A/B: looked at after every few flights, and decided the moment that the difference is more than chance."""
        self.falaj("deploy", f"{MODEL}:2", "--name", ENDPOINT, "--ab", "50")
        test = self.falaj("abtest", "create", ENDPOINT, "2", "--metric", "right", "--on-win", "promote", "--name", "knows-more")
        looks = 0
        for labels in self._labelled():
            self._until(partial(self._taken, labels), "the calls to be known")
            looks += 1
            if (test := self._looked())["state"] != "running":
                break
        self.stage.say(test["sentence"], "green")
        expect(test["state"] == "won", f"The test is {test['state']} after {looks} looks: {test['sentence']}")
        arms = self.falaj("endpoint", "show", ENDPOINT)["arms"]
        expect([one["revision"] for one in arms] == [2], f"The winner was not promoted: {arms}")
        return f"looked at {looks} times, decided after {test['units']:,} flights, and promoted by itself"

    # What the steps share

    def falaj(self, *words: str) -> Any:
        return self.stage.falaj(*words, "--project", PROJECT)

    def dataset(self, verb: str, *words: str) -> Any:
        return self.falaj("dataset", verb, *words)

    def _trained(self) -> None:
        """By a script of the user's, with the stock client."""
        token = self.stage.falaj("token", "create", "notebook")["token"]
        variables = {"MLFLOW_TRACKING_URI": self.stage.url, "MLFLOW_TRACKING_TOKEN": token, "MLFLOW_WORKSPACE": PROJECT}
        self.stage.say("$ python train_late.py .", "dim")
        done = subprocess.run(
            [str(CLIENTS / "demo" / "bin" / "python"), str(HERE / "train_late.py"), str(self.stage.folder)],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=3 * PATIENCE,
            check=False,
        )
        expect(done.returncode == 0, f"The training failed: {done.stderr.strip()[-800:]}")
        for line in done.stdout.splitlines():
            if line.startswith("version"):
                self.stage.say(line)

    def _flights(self, name: str) -> tuple[list[dict[str, float]], list[int]]:
        told = json.loads((self.stage.folder / f"{name}.json").read_text())
        return told["rows"], told["late"]

    def _asked(self, name: str) -> str:
        """All of these flights, over a few windows; when that began."""
        began = time.time()
        rows, _ = self._flights(name)
        calls = [rows[at : at + TOGETHER] for at in range(0, len(rows), TOGETHER)]
        with self._http() as http:
            for call in calls:
                self._answered(http.post("", json={"records": call}))
                time.sleep(2 * WINDOW / len(calls))
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began - WINDOW))

    def _labelled(self) -> Iterator[str]:
        """Single flights, asked for one after the other, and a file with what became of them."""
        rows, late = self._flights("after")
        file = self.stage.folder / "labels.csv"
        with self._http() as http:
            for at in range(0, len(rows), LABELLED):
                some = range(at, min(at + LABELLED, len(rows)))
                for place in some:
                    self._answered(http.post("", json=rows[place], headers={"x-falaj-id": f"flight-{place}"}))
                file.write_text("id,truth\n" + "".join(f"flight-{place},{late[place]}\n" for place in some))
                yield str(file)

    def _http(self) -> httpx.Client:
        address = f"{self.url}/v2/endpoints/{ENDPOINT}/predict"
        return httpx.Client(
            base_url=address, headers={"authorization": f"Bearer {self.key}"}, trust_env=False, timeout=PATIENCE
        )

    def _answered(self, answer: httpx.Response) -> None:
        expect(answer.status_code == 200, f"A call was answered with {answer.status_code}: {answer.text[:200]}")

    def _closed(self, since: str, rows: int) -> list[dict[str, Any]]:
        """The windows since then, once all of these rows came; a busy machine may tell of some too late for their window."""
        late = sum(one["late"] for one in self.falaj("monitor", "show", ENDPOINT)["watching"])
        found = [one for one in self.falaj("monitor", "windows", ENDPOINT)["items"] if one["at"] >= since]
        return found if sum(one["rows"] + one["missed"] for one in found) + late >= rows else []

    def _alerts(self) -> list[dict[str, Any]]:
        return list(self.falaj("alert", "list", "--endpoint", ENDPOINT)["items"])

    def _july(self) -> dict[str, Any]:
        """The alert, once a whole window of July was seen: the first one may have only few of its rows."""
        warmer = {"temp", "dewp"}
        return next((one for one in self._alerts() if warmer <= {told["column"] for told in one["columns"]}), {})

    def _taken(self, labels: str) -> bool:
        """Planes tell of their calls every few seconds; a label that comes sooner is of nothing that is known."""
        return not self.falaj("labels", "add", ENDPOINT, labels)["unknown"]

    def _looked(self) -> Any:
        return self.falaj("abtest", "show", "knows-more")

    def _until(self, look: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + 2 * PATIENCE
        while not (found := look()):
            expect(time.monotonic() < deadline, f"Waited {2 * PATIENCE:g} s for {what}.")
            time.sleep(1)
        return found
