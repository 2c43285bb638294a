"""An application that asks an endpoint: many rows in one call, or one after the other, over connections that stay open."""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.parse import urlsplit

from falaj.base.values import value
from falaj.cli.demo.stage import PATIENCE, expect

_PAUSE: Final = 0.001


@value
class Question:
    """Will this flight be late? And what became of it."""

    id: int
    month: int
    late: int
    record: dict[str, Any]


@value
class Answer:
    """`id` is what the call was sent with, and the row within it: that is how its truth finds it."""

    id: str
    question: Question
    revision: int
    label: int
    chance: float  # that it is late

    @property
    def is_right(self) -> bool:
        return self.label == self.question.late


class Ask:
    """One connection."""

    def __init__(self, url: str, endpoint: str, key: str) -> None:
        parts = urlsplit(url)
        self._http = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE)
        self._path = f"/v2/endpoints/{endpoint}/predict"
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(self, questions: Sequence[Question], id: str) -> list[Answer]:
        """One call with all of them. Whatever is not answered is a promise that was not kept."""
        status, said = self.send([one.record for one in questions], id)
        expect(status == 200, f"A call was answered with {status}: {said}")
        return [
            Answer(
                id=f"{id},{row}",
                question=question,
                revision=said["revision"],
                label=told["label"],
                chance=told["probabilities"][1],
            )
            for row, (question, told) in enumerate(zip(questions, said["predictions"], strict=True))
        ]

    def send(self, records: list[dict[str, Any]], id: str) -> tuple[int, Any]:
        self._http.request("POST", self._path, json.dumps({"records": records}), self._headers | {"x-falaj-id": id})
        answer = self._http.getresponse()
        content = answer.read()
        return answer.status, json.loads(content)


def in_calls(ask: Ask, questions: Sequence[Question], *, together: int, seconds: float, name: str) -> list[Answer]:
    """All of them, so many in each call, spread over so many seconds."""
    began, answers = time.monotonic(), list[Answer]()
    for at in range(0, len(questions), together):
        time.sleep(max(0.0, began + seconds * at / len(questions) - time.monotonic()))
        answers += ask.call(questions[at : at + together], f"{name}-{at}")
    return answers


class Load(threading.Thread):
    """Asks the same questions again and again; how often which revision answered. Whatever goes wrong in a call is kept."""

    def __init__(self, ask: Ask, questions: Sequence[Question], name: str) -> None:
        super().__init__(daemon=True)
        self._ask, self._questions, self._name = ask, questions, name
        self.ending = threading.Event()
        self.answers: list[Answer] = []
        self.failures: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.ending.wait(_PAUSE):
            question = self._questions[number % len(self._questions)]
            try:
                self.answers += self._ask.call([question], f"{self._name}-{number}")
            except Exception as error:  # noqa: BLE001 - any of them fails the step
                self.failures.append(str(error))
            number += 1

    def seen(self) -> Counter[int]:
        return Counter(answer.revision for answer in list(self.answers))

    def wait_for(self, more: int) -> None:
        self.wait_until(len(self.answers) + more)

    def wait_until(self, wanted: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(self.answers) < wanted:
            expect(time.monotonic() < deadline and not self.failures, f"Calls are not answered: {self.failures[:1]}")
            time.sleep(0.02)


@contextmanager
def load(ask: Ask, questions: Sequence[Question], name: str) -> Iterator[Load]:
    """A program that asks all the time, while something happens."""
    one = Load(ask, questions, name)
    one.start()
    try:
        yield one
    finally:
        one.ending.set()
        one.join()
    expect(not one.failures, f"{len(one.failures)} calls failed, the first with: {one.failures[:1]}")
