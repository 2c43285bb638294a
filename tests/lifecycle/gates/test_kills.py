"""A platform that dies while a gate runs, and again while it is settled: what was asked for is settled once all the same."""

import json
import time
from pathlib import Path

from falaj.lifecycle.operations.gates import (
    APPLY_GATES,
    READ_RESULTS,
    RUN_GATES,
    ApplyGates,
    Gate,
    GateRun,
    ReadResults,
    RunGates,
)
from falaj.registry.operations.evidence import READ_EVIDENCE, ReadEvidence
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.operations.versions import CREATE_VERSION, CreateVersion
from falaj.tracking.operations.artifacts import PUT_ARTIFACT, PutArtifact
from falaj.tracking.operations.runs import CREATE_RUN, CreateRun
from tests.app.mortal import KILLED, MortalPlatform

PROJECT = "default"
PATIENCE = 60.0


def begun(platform: MortalPlatform) -> None:
    """A gate that takes a while, and lets nobody through."""
    platform.call(CREATE_MODEL, CreateModel(project=PROJECT, model="scorer"))
    run = platform.call(CREATE_RUN, CreateRun(project=PROJECT)).info.id
    platform.call(PUT_ARTIFACT, PutArtifact(project=PROJECT, holder=run, name="model/weights.bin"), chunks=iter((b"w",)))
    platform.call(CREATE_VERSION, CreateVersion(project=PROJECT, model="scorer", holder=run, folder="model"))
    gate = Gate(name="asked", kind="command", command=("sh", "-c", "sleep 1; exit 3"), memory_mib=64)
    platform.call(APPLY_GATES, ApplyGates(project=PROJECT, gates=(gate,)))
    platform.call(RUN_GATES, RunGates(project=PROJECT, model="scorer", version=1))


def awaited(platform: MortalPlatform) -> GateRun:
    deadline = time.monotonic() + PATIENCE
    while True:
        run: GateRun
        (run,) = platform.call(READ_RESULTS, ReadResults(project=PROJECT, model="scorer", version=1)).items
        if run.state != "running":
            return run
        assert time.monotonic() < deadline, "the gate was not settled in time"
        time.sleep(0.1)


def test_a_gate_is_settled_once_however_often_the_platform_dies(tmp_path: Path) -> None:
    platform = MortalPlatform(tmp_path / "home", FALAJ_SERVING_ENABLED="false").start()
    try:
        begun(platform)
        platform.kill()
        platform.launch(FALAJ_FAILPOINT="gates.settled")
        assert platform.wait_until_dead() == KILLED
        platform.start()
        run = awaited(platform)
        assert (run.state, "Try 1 ended with code 3" in run.words) == ("failed", True)
        (told,) = platform.call(READ_EVIDENCE, ReadEvidence(project=PROJECT, model="scorer", version=1)).items
        assert (told.passed, told.job) == (False, run.job)
        logged = platform.falaj("audit", "log", "--operation", "version.judge", "--json")
        assert [one["facts"]["evidence"] for one in json.loads(logged.stdout)["items"]] == [told.id]
    finally:
        platform.close()
