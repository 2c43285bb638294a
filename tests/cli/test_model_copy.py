"""A version goes from one project into another: the same files, by both projects' rules, once, however often it is killed."""

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import falaj
import falaj.client
from falaj.client import copying
from falaj.client.copying import ID, KEY
from falaj.client.http import Client
from tests.cli.conftest import Running
from tests.jobs.mortal import failpoints_in

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "registry" / "models"
LATE = ("model", "copy", "late:1", "--project", "dev")
TO = ("--to", "production")
THERE = ("--project", "production")
RULE = """
forbid (principal, action == Action::"model.promote", resource)
when { context has promotion && context.promotion.alias == "champion" && context.promotion.approvals < 1 };
"""
GATES = '[gates.signature]\nkind = "signature"\n[require]\nchampion = ["signature"]\n'


@pytest.fixture(scope="module")
def dev(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> Running:
    """A version of three files in dev, and a production that is empty."""
    for project in ("dev", "production"):
        platform("project", "create", project, "--zone", "home")
    folder = tmp_path_factory.mktemp("late") / "model"
    (folder / "notes").mkdir(parents=True)
    (folder / "MLmodel").write_bytes((MODELS / "lightgbm.MLmodel").read_bytes())
    (folder / "model.lgb").write_bytes((MODELS / "model.lgb").read_bytes())
    (folder / "notes" / "why.txt").write_text("trained on the winter")
    run = platform("run", "create", "0", "-p", "dev").strip()
    platform("artifact", "put", run, str(folder), "-p", "dev")
    platform("model", "create", "late", "--description", "Which flights are late.", "-p", "dev")
    platform("model", "register", "late", run, "model", "--description", "With the wind.", "-p", "dev")
    return platform


def person(platform: Running, folder: Path, name: str, **roles: str) -> dict[str, str]:
    """The environment of somebody who is signed in and has these roles."""
    invited = platform.json("user", "create", name)
    shell = {"FALAJ_HOME": str(folder / name), "XDG_CONFIG_HOME": str(folder / name), "FALAJ_URL": platform.url}
    platform("login", "--code", invited["code"], **shell)
    for project, role in roles.items():
        platform("project", "member", "add", project, name, role)
    return shell


def tags(thing: dict[str, Any]) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in thing["tags"]}


def listed(platform: Running, model: str, project: str) -> list[tuple[str, str]]:
    found = platform.json("model", "files", model, "1", "-p", project)["items"]
    return [(file["name"], file["digest"]) for file in found]


def test_a_copy_is_the_same_files_signed_there_and_says_where_it_came_from(dev: Running):
    assert "production has it as late:1: 3 files" in dev(*LATE, *TO)
    assert listed(dev, "late", "production") == listed(dev, "late", "dev")
    here, there = (dev.json("model", "show", "late", "1", "-p", project) for project in ("dev", "production"))
    assert there["signed"]
    assert there["servable"]
    for same in ("digest", "inputs", "outputs", "runtime", "flavors", "size"):
        assert there[same] == here[same], same
    assert (there["source"], there["description"]) == ("dev/late:1", "Copied from dev/late:1. With the wind.")
    verified = [dev.json("model", "verify", "late", "1", "-p", project) for project in ("dev", "production")]
    assert [one["ok"] for one in verified] == [True, True]
    assert verified[0]["key"] != verified[1]["key"], "each project signs with its own"
    run = dev.json("run", "show", there["run"], *THERE)
    for said in (tags(there), tags(run)):
        assert (said[ID], said[KEY]) == (here["id"], verified[0]["key"])
        assert (said[copying.PROJECT], said[copying.MODEL], said[copying.NUMBER]) == ("dev", "late", "1")
    assert run["info"]["status"] == "FINISHED"
    assert dev.json("experiment", "show", str(run["info"]["experiment"]), *THERE)["name"] == "copies of late"
    assert dev.json("model", "show", "late", *THERE)["description"] == "Which flights are late."
    assert "Copied from dev/late:1" in dev("model", "story", "late", "1", "--out", "-", *THERE)


def test_what_is_there_is_not_copied_again(dev: Running):
    first = dev.json(*LATE, *TO, "--as", "twice")
    again = dev.json(*LATE, *TO, "--as", "twice")
    assert (first["new"], again["new"]) == (True, False)
    assert again == first | {"new": False}
    assert "production has it as twice:1 already." in dev(*LATE, *TO, "--as", "twice")
    assert len(dev.json("model", "versions", "twice", *THERE)["items"]) == 1


def test_the_points_where_a_copy_may_die_are_those_that_are_tried():
    here = {point for point in failpoints_in(falaj.client) if point.startswith("copies.")}
    assert here == {"copies.stored", "copies.registered"}


def test_a_copy_that_is_killed_is_no_version_and_is_finished_by_the_next(dev: Running):
    copy = (*LATE, *TO, "--as", "mortal")
    for point in ("copies.stored", "copies.stored"):
        died = dev.raw(*copy, FALAJ_FAILPOINT=point)
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
        assert dev.json("model", "versions", "mortal", *THERE)["items"] == []
    experiment = next(one for one in dev.json("experiment", "list", *THERE)["items"] if one["name"] == "copies of mortal")
    [run] = dev.json("run", "list", str(experiment["id"]), *THERE)["items"]
    assert run["info"]["status"] == "RUNNING"
    kept = dev.json("artifact", "list", run["info"]["id"], "--deep", *THERE)["items"]
    assert len(kept) == 2, "what arrived stays"
    died = dev.raw(*copy, FALAJ_FAILPOINT="copies.registered")
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    made = dev.json(*copy)
    assert (made["version"], made["new"], made["run"]) == (1, False, run["info"]["id"])
    assert len(dev.json("run", "list", str(experiment["id"]), *THERE)["items"]) == 1
    assert dev.json("run", "show", made["run"], *THERE)["info"]["status"] == "FINISHED"
    assert dev.json("model", "verify", "mortal", "1", *THERE)["ok"]


def test_a_copy_takes_in_nothing_that_somebody_else_put_into_its_run(dev: Running):
    assert dev.raw(*LATE, *TO, "--as", "meddled", FALAJ_FAILPOINT="copies.stored").returncode == -signal.SIGKILL
    experiment = next(one for one in dev.json("experiment", "list", *THERE)["items"] if one["name"] == "copies of meddled")
    [run] = dev.json("run", "list", str(experiment["id"]), *THERE)["items"]
    named = run["info"]["id"]
    dev("artifact", "put", named, "-", "--name", "model/MLmodel", *THERE, input="flavors: {}")
    dev("artifact", "put", named, "-", "--name", "model/more.bin", *THERE, input="of somebody else")
    refused = dev.fails(*LATE, *TO, "--as", "meddled")
    assert "'more.bin' differs" in refused
    assert f"falaj artifact delete {named} model" in refused
    assert dev.json("run", "show", named, *THERE)["info"]["status"] == "FAILED"
    assert dev.json("model", "versions", "meddled", *THERE)["items"] == []
    dev("artifact", "delete", named, "model", "--yes", *THERE)
    assert dev.json(*LATE, *TO, "--as", "meddled")["new"]
    assert dev.json("run", "show", named, *THERE)["info"]["status"] == "FINISHED"


def test_each_project_lets_in_and_out_whom_it_knows(dev: Running, tmp_path: Path):
    viewer = person(dev, tmp_path, "vera", dev="scientist", production="viewer")
    assert "(rule no-permit" in dev.fails(*LATE, *TO, "--as", "refused", **viewer)
    outside = person(dev, tmp_path, "omar", dev="scientist")
    assert "'production'" in dev.fails(*LATE, *TO, "--as", "refused", **outside)
    blind = person(dev, tmp_path, "bilal", production="engineer")
    assert "'dev'" in dev.fails(*LATE, *TO, "--as", "refused", **blind)
    assert "late:1" not in str(dev.json("model", "list", "--filter", "name = 'refused'", *THERE))
    allowed = person(dev, tmp_path, "amal", dev="viewer", production="scientist")
    assert dev.json(*LATE, *TO, "--as", "allowed", **allowed)["new"]
    told, why = dev.both(*LATE, *TO, "--as", "allowed", "--promote", "champion", status=1, **allowed)
    assert "production has it as allowed:1 already." in told
    assert "(rule no-permit" in why, "to copy is to write, and to promote is another right"


def test_bytes_do_not_leave_the_zones_of_their_project(dev: Running):
    dev("zone", "create", "berlin", "--country", "DE", "--jurisdiction", "gdpr")
    dev("project", "create", "abroad", "--zone", "berlin")
    refused = dev.fails(*LATE, "--to", "abroad")
    assert "(rule residency.target-zone" in refused
    assert dev.json("model", "versions", "late", "-p", "abroad")["items"] == []
    experiment = dev.json("experiment", "list", "-p", "abroad")["items"][0]
    [run] = dev.json("run", "list", str(experiment["id"]), "-p", "abroad")["items"]
    assert run["info"]["status"] == "FAILED"
    assert dev.json("artifact", "list", run["info"]["id"], "-p", "abroad")["items"] == []
    dev("project", "update", "dev", "--zone", "home", "--zone", "berlin")
    refused = dev.fails(*LATE, *TO, "--as", "late-too")
    assert "(rule residency.target-zone" in refused, "a part of dev may lie where nothing of production may"
    dev("project", "update", "dev", "--zone", "home")
    token = dev.json("token", "create", "in berlin", "--zone", "berlin")["token"]
    assert "(rule residency.caller-zone" in dev.fails(*LATE, *TO, "--as", "late-too", FALAJ_TOKEN=token)


def test_a_copy_is_promoted_by_the_rules_of_where_it_is(dev: Running, tmp_path: Path):
    dev("project", "create", "governed", "--zone", "home")
    (tmp_path / "gates.toml").write_text(GATES)
    (tmp_path / "rule.cedar").write_text(RULE)
    dev("gate", "apply", str(tmp_path / "gates.toml"), "-p", "governed")
    dev("policy", "put", "four-eyes", str(tmp_path / "rule.cedar"), "--project", "governed")
    copy = (*LATE, "--to", "governed", "--promote", "champion", "--reason", "better")
    told, why = dev.both(*copy, status=1)
    assert "governed has it as late:1: 3 files" in told
    assert "signature" in why
    dev("gate", "run", "late:1", "-p", "governed")
    waiting = dev.json(*copy, status=3)
    assert (waiting["new"], waiting["promotion"]["state"]) == (False, "waiting")
    second = person(dev, tmp_path, "maryam", governed="validator")
    dev("model", "approve", waiting["promotion"]["approval"], "-p", "governed", **second)
    assert "champion of late points at version 1 now" in dev(*copy)
    assert dev.json("model", "history", "late", "-p", "governed")["items"][0]["reason"] == "better"


def test_what_was_asked_wrongly_is_told_in_one_line(dev: Running):
    assert "is where it is already" in dev.fails(*LATE, "--to", "dev", status=2)
    assert "names no version" in dev.fails("model", "copy", "late:x", "-p", "dev", *TO, status=2)
    assert "no version 9" in dev.fails("model", "copy", "late:9", "-p", "dev", *TO)
    assert "nowhere" in dev.fails(*LATE, "--to", "nowhere")
    assert "name the alias" in dev.fails(*LATE, *TO, "--reason", "because", status=2)
    assert "neither '/' nor ':'" in dev.fails(*LATE, *TO, "--as", "a/b", status=2)


def test_a_job_copies_with_a_token_of_the_other_project(dev: Running, monkeypatch: pytest.MonkeyPatch):
    """As in a step: the job's token reaches production alone, and a secret reads in dev."""
    dev("model", "promote", "late", "1", "-p", "dev")
    dev("service", "create", "dev", "reader", "--role", "viewer")
    reads = dev.json("service", "token", "create", "dev", "reader")["token"]
    writes = dev.json("token", "create", "as a job", "--project", "production")["token"]
    for name, text in {"FALAJ_URL": dev.url, "FALAJ_TOKEN": writes, "FALAJ_PROJECT": "production"}.items():
        monkeypatch.setenv(name, text)
    made = falaj.copy_model("late@champion", project="dev", name="by-job", token=reads)
    assert (made.model, made.version) == ("by-job", 1)
    assert made.details().source == "dev/late:1"
    with Client(dev.url, dev.json("token", "create", "all")["token"]) as owner:
        assert falaj.copy_model("late", project="dev", name="by-job", client=owner) == made


def test_a_pipeline_in_production_brings_a_version_over_once_somebody_agreed(dev: Running, tmp_path: Path):
    """The one in docs/environments.md; only its last step is left out, for there is no plane here that would answer."""
    dev("service", "create", "dev", "releases", "--role", "viewer")
    reads = dev.json("service", "token", "create", "dev", "releases", "--scope", "read")["token"]
    dev("project", "create", "released", "--zone", "home")
    dev("secret", "set", "DEV_TOKEN", "--project", "released", input=reads)
    [code] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "environments.md").read_text(), re.DOTALL)
    deploying = '    falaj.steps.deploy(model, to="late")\n'
    assert deploying in code
    (tmp_path / "release.py").write_text(code.replace(deploying, ""))
    release = ("pipeline", "run", str(tmp_path / "release.py"), "--project", "released", "--set", "version=late:1")
    run = dev.json(*release, "--detach")["id"]
    _until_asked(dev, run)
    assert dev.json("model", "list", "-p", "released")["items"] == [], "nothing is there before somebody agreed"
    dev("pipeline", "approve", run, "approval", "-p", "released")
    told = dev("pipeline", "show", run, "--follow", "-p", "released")
    assert dev.json("pipeline", "show", run, "-p", "released")["state"] == "done", told
    made = dev.json("model", "show", "late", "champion", "-p", "released")
    assert (made["version"], made["source"], made["signed"]) == (1, "dev/late:1", True)


def _until_asked(dev: Running, run: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        steps = dev.json("pipeline", "show", run, "-p", "released")["steps"]
        if any((step["name"], step["state"]) == ("approval", "asking") for step in steps):
            return
        assert time.monotonic() < deadline, steps
        time.sleep(0.1)
