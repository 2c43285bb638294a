"""The trials of a search in one process, kept in a file of lines: a kill loses at most what was not finished."""

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from falaj.base.errors import Conflict
from falaj.training.search import studies
from falaj.training.search.spaces import Params
from falaj.training.search.studies import Study, Trial


class Journal:
    """One process at a time has it open. A last line that a kill cut off counts for nothing."""

    def __init__(self, path: Path, study: Study) -> None:
        self._file: BinaryIO = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by `close`
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise Conflict(f"Another process searches with {path}; wait for it, or take another file.") from None
        self.begun: dict[int, Params] = {}
        self.ended: dict[int, Trial] = {}
        try:
            self._read(path, study)
        except BaseException:
            self._file.close()
            raise

    def begin(self, number: int, params: Params) -> None:
        self._write({"begin": number, "params": params})

    def end(self, trial: Trial) -> None:
        """On the disk when this is over."""
        steps = [[step, at] for step, at in trial.steps.items()]
        self._write({"end": trial.number, "state": trial.state, "values": trial.values, "steps": steps, "words": trial.words})
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def _write(self, document: dict[str, Any]) -> None:
        self._file.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")

    def _read(self, path: Path, study: Study) -> None:
        lines = self._whole_lines()
        document = next(lines, None)
        if document is None:
            self._write({"name": study.name, "study": studies.as_document(study)})
            return
        known = studies.from_document(document["name"], document["study"])
        if told := studies.differences(study, known):
            raise Conflict(f"{path} has a study of something else: {'; '.join(told)}. Take another file, or remove that one.")
        for line in lines:
            if "begin" in line:
                self.begun[line["begin"]] = line["params"]
            else:
                self.ended[line["end"]] = Trial(
                    number=line["end"],
                    params=self.begun[line["end"]],
                    state=line["state"],
                    values=tuple(line["values"]),
                    steps={int(step): at for step, at in line["steps"]},
                    words=line["words"],
                )

    def _whole_lines(self) -> Iterator[dict[str, Any]]:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        for line in whole.splitlines():
            yield json.loads(line)
