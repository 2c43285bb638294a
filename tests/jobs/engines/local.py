"""What tests of the local engine share: an engine in both ways that it can run, and scripts that say what they found."""

import json
import os
import time

from falaj.jobs.engines.engine import Environment, Launch, Limits
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.scheduler.values import Seat, Shape

AS_ROOT = {"groups": True, "own_user": True}  # as anybody else, it comes to the same as the other
AS_ANYBODY = {"groups": False, "own_user": False}
WAYS = {"as root": AS_ROOT, "as anybody": AS_ANYBODY}


def launched(engine: LocalEngine, *command, **changes) -> str:
    given = {
        "attempt": os.urandom(8).hex(),
        "job": "job",
        "project": "project",
        "name": "a job",
        "command": command,
        "shape": Shape(cpu_milli=500, memory_mib=256),
        "seats": (Seat(node="here"),),
        "environment": Environment(),
        "limits": Limits(seconds=120),
        "variables": {},
    }
    launch = Launch(**given | changes)
    engine.start(launch)
    return launch.attempt


def seen(engine, attempt):
    return next((one for one in engine.look() if one.attempt == attempt), None)


def wait_for(what):
    deadline = time.monotonic() + 60
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return found


def ended(engine, attempt):
    def over():
        one = seen(engine, attempt)
        return one if one is not None and one.state == "ended" else None

    return wait_for(over)


def logged(engine, attempt) -> str:
    return engine.log(attempt, 0, 1 << 24)[0].decode()


def found_by(engine, code, **changes):
    """What Python `code`, run as a job, puts into `found`."""
    attempt = launched(engine, "python", "-c", f"import json, os\nfound = []\n{code}\nprint(json.dumps(found))", **changes)
    end = ended(engine, attempt)
    assert end.cause == "done", (end, logged(engine, attempt))
    return json.loads(logged(engine, attempt).splitlines()[-1])
