"""A real platform with its own engine on this host: jobs are submitted to it and looked at as users do."""

import io
import re
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Job, Spec, Submit, Submitted
from falaj.jobs.operations.queues import APPLY_QUEUES, Applied, ApplyQueues, QueueSpec
from falaj.jobs.operations.words import Resources
from tests.app.running import RunningPlatform
from tests.app.world import MOVING, state_of

PROJECT = "default"
PATIENCE = 60.0
SMALL = Resources(cpus=0.1, memory_mib=64)
# What the controller has not heard of yet it will soon; and what jobs wrote is put away some time after they ended.
MOVING_LOGS = re.compile(f"{MOVING.pattern}|jobs_news$|jobs_attempts$|storage_")
# What takes jobs and starts none: whatever waits there waits until the test has looked at it.
CLOSED = QueueSpec(name="closed", open=False)
OPEN = QueueSpec(name="default")


class Yard:
    def __init__(self, folder: Path, settings: str = "") -> None:
        self.platform = RunningPlatform(folder / "home", settings=settings)
        self.call = self.platform.call

    def close(self) -> None:
        self.platform.close()

    def state(self) -> str:
        """A digest of everything that only users change, once all jobs are at rest."""
        return state_of(self.platform.home.database, MOVING_LOGS)

    # Jobs

    def submit(self, *command: str, project: str = PROJECT, token: str | None = None, **fields: Any) -> Submitted:
        made: Submitted = self.call(declared.SUBMIT_JOB, submission(*command, project=project, **fields), token=token)
        return made

    def run(self, *command: str, project: str = PROJECT, **fields: Any) -> Job:
        """Submit it, and wait until it is over."""
        return self.ended(self.submit(*command, project=project, **fields).job.id, project)

    def show(self, job: str, project: str = PROJECT) -> Job:
        found: Job = self.call(declared.SHOW_JOB, declared.OneJob(project=project, job=job))
        return found

    def ended(self, job: str, project: str = PROJECT) -> Job:
        return self.when(lambda: self.show(job, project), lambda found: found.ended is not None)

    def running(self, job: str, project: str = PROJECT) -> Job:
        return self.when(lambda: self.show(job, project), lambda found: found.state == "running")

    def when(self, look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
        """What there is to see, once that holds of it."""
        deadline = time.monotonic() + PATIENCE
        while not holds(found := look()):
            assert time.monotonic() < deadline, f"it did not come true in time: {found}"
            time.sleep(0.03)
        return found

    def log(self, job: str, project: str = PROJECT, **fields: Any) -> str:
        return str(self.call(declared.READ_LOG, declared.ReadLog(project=project, job=job, **fields)).text)

    def events(self, job: str, project: str = PROJECT) -> list[str]:
        """The kinds of what happened to it."""
        found = self.call(declared.READ_EVENTS, declared.ReadEvents(project=project, job=job))
        return [event.kind for event in found.items]

    def why(self, job: str, project: str = PROJECT) -> declared.Why:
        found: declared.Why = self.call(declared.EXPLAIN_JOB, declared.OneJob(project=project, job=job))
        return found

    def cancel(self, job: str, project: str = PROJECT) -> Job:
        """And wait until it is over."""
        self.call(declared.CANCEL_JOB, declared.Cancel(project=project, job=job))
        return self.ended(job, project)

    def send(self, content: bytes, project: str = PROJECT, **options: Any) -> declared.Source:
        request = declared.UploadSource(project=project)
        sent: declared.Source = self.call(declared.UPLOAD_SOURCE, request, data=content, **options)
        return sent

    # Queues

    def apply(self, *queues: QueueSpec, **more: Any) -> Applied:
        done: Applied = self.call(APPLY_QUEUES, ApplyQueues(queues=queues, **more))
        return done


def submission(*command: str, project: str = PROJECT, **fields: Any) -> Submit:
    return Submit(project=project, spec=Spec(**{"command": command or ("true",), "resources": SMALL, "retries": 0, **fields}))


def tar_of(files: Mapping[str, bytes | tarfile.TarInfo], *, mode: str = "w") -> bytes:
    """Names and contents, or whole entries where those are odd."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                tar.addfile(content, io.BytesIO(b"\0" * content.size) if content.isfile() else None)
                continue
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()
