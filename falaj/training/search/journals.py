"""The trials of a search in one process, kept in a file of lines: a kill loses at most what was not finished."""

import fcntl
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final

from falaj.base.errors import Conflict, Invalid
from falaj.training.search import studies
from falaj.training.search.spaces import Params
from falaj.training.search.studies import Study, Trial

# What a line of a file may raise that is no journal.
_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Journal:
    """One process at a time has it open. A last line that a kill cut off counts for nothing."""

    def __init__(self, path: Path, study: Study) -> None:
        self._file = _opened(path)
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
        self._file.write(_line(document))

    def _read(self, path: Path, study: Study) -> None:
        """Nothing of the file is changed before all of it was read as a journal of this study."""
        first = {"name": study.name, "study": studies.as_document(study)}
        self._file.seek(0)
        content = self._file.read()
        length = content.rfind(b"\n") + 1
        if length:
            self._read_lines(path, study, content[:length].splitlines())
        elif not _line(first).startswith(content):
            raise _none(path, 1)
        if length < len(content):
            self._file.truncate(length)
        if not length:
            self._write(first)

    def _read_lines(self, path: Path, study: Study, lines: list[bytes]) -> None:
        for number, line in enumerate(lines, start=1):
            try:
                document = json.loads(line)
                if number == 1:
                    known = studies.from_document(document["name"], document["study"])
                elif "begin" in document:
                    self._begun(study, document)
                else:
                    self._ended(study, document)
            except (Invalid, *_UNREADABLE):
                raise _none(path, number) from None
            if number == 1 and (told := studies.differences(study, known)):
                raise Conflict(
                    f"{path} has a study of something else: {'; '.join(told)}. Take another file, or remove that one."
                )

    def _begun(self, study: Study, line: dict[str, Any]) -> None:
        number, params = line["begin"], line["params"]
        if type(number) is not int or set(params) != {one.name for one in study.space}:
            raise ValueError("no beginning of a trial")
        self.begun[number] = dict(params)

    def _ended(self, study: Study, line: dict[str, Any]) -> None:
        number, state, values = line["end"], line["state"], tuple(map(float, line["values"]))
        if state not in studies.ENDED or len(values) != (len(study.objectives) if state == "complete" else 0):
            raise ValueError("no end of a trial")
        self.ended[number] = Trial(
            number=number,
            params=self.begun[number],
            state=state,
            values=values,
            steps={int(step): float(at) for step, at in line["steps"]},
            words=str(line["words"]),
        )


def _opened(path: Path) -> BinaryIO:
    """A file of its own, and nothing that stands for another: what is no journal is left as it is."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise Invalid(f"{path} cannot be a journal: {error.strerror}.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Invalid(f"{path} cannot be a journal: it is no file.")
    return os.fdopen(descriptor, "a+b", buffering=0)


def _line(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _none(path: Path, number: int) -> Invalid:
    return Invalid(f"{path} is no journal of a search: its line {number} is none of one. Take another file.")
