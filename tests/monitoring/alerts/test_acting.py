"""What alerts make happen, in earnest: traffic goes back or stands still, variants answer, jobs are submitted; each once, on
record, with words."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from falaj.base.clock import HOUR, MINUTE, SECOND
from falaj.base.errors import Unavailable
from falaj.base.values import Nothing
from falaj.governance.identity import member_operations as members
from falaj.governance.identity.operations import WHOAMI
from falaj.governance.projects.operations import DELETE_PROJECT, OneProject
from falaj.governance.roles import Role
from falaj.jobs.operations import jobs
from falaj.jobs.operations.jobs import Setting, Spec
from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act
from falaj.monitoring.store import alerts as alert_store
from falaj.serving.deploying import DeploymentService
from falaj.serving.operations.endpoints import DELETE_ENDPOINT, OneEndpoint
from falaj.serving.operations.words import WHOLE, Arm, Steps
from falaj.serving.splits import main_revision
from tests.monitoring.alerts.platform import Watched, drift
from tests.monitoring.alerts.test_alerts import decide
from tests.monitoring.alerts.test_posting import until
from tests.serving.control.platform import PROJECT, Platform
from tests.serving.control.test_variants import Shelf

BACK = Wishes(actions=(Act(do="roll-back"),))
HALVES = (Arm(revision=1, share=WHOLE // 2), Arm(revision=2, share=WHOLE // 2))
NO_WAY = "There is no earlier split without revision 1 that could be gone back to."
STEPS = Steps(shares=(1_000, 5_000, WHOLE), seconds=60)


def act(platform: Platform) -> None:
    platform.app.monitoring.acting.step(platform.clock.now())


def acted(watched: Watched, **fields: Any) -> declared.Action:
    """What came of the first action of an alert that is raised now."""
    watched.sees(drift(**fields))
    act(watched.platform)
    return watched.alert().actions[0]


def answering(platform: Platform) -> int:
    return main_revision(platform.show().arms)


# Rolling back


def test_traffic_goes_back_and_the_history_and_the_ledger_say_why(platform: Platform) -> None:
    watched = Watched(platform, BACK, revisions=2)
    action = acted(watched, revision=2)
    assert (action.state, action.words) == ("done", "Went back: 100 % to revision 1.")
    assert answering(platform) == 1
    alert, last = watched.alert(), platform.history()[-1]
    assert (last.kind, last.by, last.reason) == ("rollback", None, f"Alert {alert.id}: 1 of 3 columns drift")
    [split] = platform.leaves("endpoint.split")
    assert (split.facts["alert"], split.facts["action"], split.principal) == (alert.id, action.id, "")
    [leaf] = platform.leaves("alert.act")
    assert (leaf.facts["kind"], leaf.facts["state"]) == ("roll-back", "done")


def test_it_is_done_once_however_many_act_at_once_and_however_often(platform: Platform) -> None:
    watched = Watched(platform, BACK, revisions=3)
    watched.sees(drift(revision=3))
    threads = [threading.Thread(target=act, args=(platform,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    act(platform)
    assert answering(platform) == 2
    assert [one.kind for one in platform.history()].count("rollback") == 1


def test_no_way_back_leaves_the_revision_that_drifts_a_part(platform: Platform) -> None:
    watched = Watched(platform, BACK, revisions=2)
    platform.split(*HALVES)
    platform.promote(2)
    action = acted(watched, revision=2)
    assert (action.state, action.words) == ("done", "Went back: 100 % to revision 1.")
    assert [(arm.revision, arm.share) for arm in platform.show().arms] == [(1, WHOLE)]


def test_a_revision_that_had_a_part_in_every_split_is_not_gone_back_from(small: Platform) -> None:
    watched = Watched(small, BACK)
    small.deploy(small.register().version, mode="canary", share=1_000)
    small.split(*HALVES)
    action = acted(watched, revision=1)
    assert (action.state, action.words) == (
        "failed",
        "There is no earlier split without revision 1 that could be gone back to.",
    )
    assert small.show().arms == HALVES


def test_nothing_to_go_back_to_is_said(small: Platform) -> None:
    action = acted(Watched(small, BACK))
    assert (action.state, action.words) == (
        "failed",
        "There is no earlier split without revision 1 that could be gone back to.",
    )
    assert [leaf.facts["state"] for leaf in small.leaves("alert.act")] == ["failed"]
    assert small.leaves("endpoint.split") == []


def test_a_revision_that_somebody_replaced_meanwhile_is_not_gone_back_from(small: Platform) -> None:
    watched = Watched(small, BACK, revisions=2)
    watched.sees(drift(revision=2))
    small.deploy(small.register().version)
    act(small)
    action = watched.alert().actions[0]
    assert action.state == "failed"
    assert action.words.startswith("Revision 2, which the alert is of, answers nobody any more")
    assert answering(small) == 3


def test_what_a_shadow_shows_does_not_use_up_the_rollback_of_what_answers(small: Platform) -> None:
    watched = Watched(small, BACK, revisions=3)
    small.split(Arm(revision=1, share=WHOLE))
    small.split(Arm(revision=2, share=1_000, role="shadow"), Arm(revision=3, share=WHOLE))
    watched.sees(drift(revision=2), drift(revision=3))
    act(small)
    shown = {alert.sentences[-1]: alert for alert in watched.alerts()}
    of_shadow = shown["Rolling back is left out: callers get no answers from revision 2."]
    assert of_shadow.actions == ()
    [other] = [one for one in watched.alerts() if one.id != of_shadow.id]
    assert [(one.state, one.words) for one in other.actions] == [("done", "Went back: 100 % to revision 1.")]
    assert answering(small) == 1


def test_what_needs_approval_is_done_once_somebody_agreed(small: Platform) -> None:
    watched = Watched(small, Wishes(actions=(Act(do="roll-back", approval=True),)), revisions=2)
    action = acted(watched, revision=2)
    assert (action.state, answering(small)) == ("waiting", 2)
    assert action.words == "It waits for somebody who may deploy to agree. It would give 100 % to revision 1."
    decide(watched, action.id)
    act(small)
    assert (watched.alert().actions[0].state, answering(small)) == ("done", 1)


def test_of_what_is_gone_nothing_is_done_and_that_is_said(small: Platform) -> None:
    watched = Watched(small, BACK, revisions=2)
    watched.sees(drift(revision=2))
    small.call(DELETE_ENDPOINT, OneEndpoint(project=PROJECT, endpoint="scores"))
    act(small)
    assert (watched.alert().actions[0].state, watched.alert().actions[0].words) == ("failed", "The endpoint is gone.")


def test_in_an_archived_project_nothing_is_done(small: Platform) -> None:
    watched = Watched(small, BACK, revisions=2)
    watched.sees(drift(revision=2))
    small.call(DELETE_PROJECT, OneProject(project=PROJECT))
    act(small)
    assert watched.alert().actions[0].words == "The project is archived or gone."


# Pausing


def test_a_canary_is_paused_keeps_its_share_and_may_still_go_on_or_back(platform: Platform) -> None:
    watched = Watched(platform, Wishes(actions=(Act(do="pause-canary"),)))
    platform.deploy(platform.register().version, mode="canary", steps=STEPS)
    before = platform.show()
    action = acted(watched, revision=2)
    assert (action.state, action.words) == ("done", "Revision 2 keeps its share, and grows no more.")
    for _ in range(3):
        platform.clock.forward(HOUR)
        platform.step()
    now = platform.show()
    assert (now.arms, now.next_step, now.step) == (before.arms, None, before.step)
    assert main_revision(platform.roll_back().arms) == 1
    assert platform.promote(2).arms[0].revision == 2


def test_where_no_canary_grows_there_is_nothing_to_pause(small: Platform) -> None:
    action = acted(Watched(small, Wishes(actions=(Act(do="pause-canary"),))))
    assert (action.state, action.words) == ("failed", "No canary grows by itself there.")


# Falling back


def test_the_fastest_certified_variant_of_the_same_version_answers(platform: Platform) -> None:
    watched = Watched(platform, Wishes(actions=(Act(do="fall-back"),)))
    shelf = Shelf(platform)
    shelf.put("fp16", 1.5)
    shelf.put("int8", 2.5)
    action = acted(watched)
    assert (action.state, action.words) == ("done", "Revision 2 answers, which is 'int8' of fraud version 1.")
    [revision] = [one for one in platform.show().revisions if one.number == 2]
    assert (revision.variant, revision.version, answering(platform)) == ("int8", 1, 2)
    [leaf] = [one for one in platform.leaves("endpoint.deploy") if "alert" in one.facts]
    assert (leaf.facts["variant"], leaf.facts["set_by"], leaf.principal) == ("int8", watched.by, "")


def test_without_a_variant_the_reason_is_told_and_nothing_changes(small: Platform) -> None:
    action = acted(Watched(small, Wishes(actions=(Act(do="fall-back"),))))
    assert action.state == "failed"
    assert "has no certified variant" in action.words
    assert len(small.history()) == 1


@pytest.mark.parametrize(
    ("named", "words"),
    [("loose", "The variant 'loose' has no certificate that holds: It expired."), ("other", "There is no variant 'other'")],
)
def test_what_is_not_certified_or_not_there_is_not_fallen_back_to(small: Platform, named: str, words: str) -> None:
    watched = Watched(small, Wishes(actions=(Act(do="fall-back", variant=named),)))
    Shelf(small).put("loose", 2.0, certified=False, problem="It expired.")
    action = acted(watched)
    assert action.state == "failed"
    assert words in action.words
    assert answering(small) == 1


def test_what_answers_by_the_variant_already_stays(small: Platform) -> None:
    watched = Watched(small, Wishes(actions=(Act(do="fall-back"),)))
    Shelf(small).put("int8", 2.0)
    small.deploy(1, variant="int8")
    action = acted(watched, revision=2)
    assert (action.state, action.words) == ("failed", "Revision 2 answers by 'int8' already.")


def test_a_canary_that_is_wrong_does_not_have_the_revision_beside_it_replaced(small: Platform) -> None:
    watched = Watched(small, Wishes(actions=(Act(do="fall-back"),)))
    Shelf(small).put("int8", 2.5)
    small.deploy(small.register().version, mode="canary", share=500)
    before = small.show()
    action = acted(watched, revision=2)
    assert (action.state, action.words) == (
        "failed",
        "Revision 2, which the alert is of, answers beside revision 1, which would be replaced: roll it back, or pause it.",
    )
    assert (small.show().arms, small.show().revisions) == (before.arms, before.revisions)


def test_a_canary_that_began_to_answer_meanwhile_is_not_what_a_variant_is_deployed_for(
    small: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As seen once more in the transaction that deploys."""
    watched = Watched(small, Wishes(actions=(Act(do="fall-back"),)))
    Shelf(small).put("int8", 2.5)
    choose = DeploymentService.choose

    def late(service: DeploymentService, *given: Any) -> Any:
        chosen = choose(service, *given)
        monkeypatch.undo()
        small.split(Arm(revision=1, share=500), Arm(revision=small.deploy(1, mode="shadow").revision, share=WHOLE - 500))
        return chosen

    monkeypatch.setattr(DeploymentService, "choose", late)
    action = acted(watched)
    assert action.state == "failed"
    assert "answers beside revision 2" in action.words
    assert answering(small) == 2


def test_policy_is_asked_whether_who_set_the_monitor_may_still_deploy(small: Platform) -> None:
    emma = small.person("emma", Role.ENGINEER)
    watched = Watched(small, Wishes(actions=(Act(do="fall-back"),)), by=small.call(WHOAMI, Nothing(), emma).id)
    Shelf(small).put("int8", 2.0)
    small.call(members.REMOVE_MEMBER, members.RemoveMember(project=PROJECT, member="emma", role=Role.ENGINEER))
    action = acted(watched)
    assert action.state == "failed"
    assert action.words.startswith("emma, who set the monitor, may not do that any more")
    assert answering(small) == 1


# Retraining


def submitted(platform: Platform, command: tuple[str, ...] = ("python", "train.py")) -> str:
    """A job that is over."""
    spec = Spec(command=command, variables=(Setting(name="EPOCHS", value="3"), Setting(name="FALAJ_ALERT", value="old")))
    made = platform.call(jobs.SUBMIT_JOB, jobs.Submit(project=PROJECT, spec=spec))
    platform.call(jobs.CANCEL_JOB, jobs.Cancel(project=PROJECT, job=made.job.id))
    platform.app.jobs.step()
    return made.job.id


def all_jobs(platform: Platform) -> list[jobs.Job]:
    return list(platform.call(jobs.LIST_JOBS, jobs.ListJobs(project=PROJECT)).items)


def test_the_job_is_submitted_once_more_in_the_name_of_who_set_the_monitor_and_knows_why(platform: Platform) -> None:
    platform.app.jobs.step()
    emma = platform.person("emma", Role.ENGINEER)
    job = submitted(platform)
    wishes = Wishes(actions=(Act(do="retrain", job=job),))
    watched = Watched(platform, wishes, by=platform.call(WHOAMI, Nothing(), emma).id)
    action = acted(watched)
    [new] = [one for one in all_jobs(platform) if one.id != job]
    assert (action.state, action.words) == ("done", f"Submitted the job {new.id} (train.py).")
    assert new.submitted_by.name == "emma"
    shown = platform.call(jobs.SHOW_JOB, jobs.OneJob(project=PROJECT, job=new.id))
    variables = {one.name: one.value for one in shown.spec.variables}
    assert variables == {"EPOCHS": "3", "FALAJ_ALERT": watched.alert().id, "FALAJ_ENDPOINT": "scores"}
    [leaf] = platform.leaves("job.retry")
    assert (leaf.facts["job"], leaf.facts["alert"], leaf.facts["set_by"]) == (new.id, watched.alert().id, watched.by)


def test_the_new_job_really_runs_and_reads_what_it_is_for(small: Platform) -> None:
    small.app.jobs.step()
    job = submitted(small, ("sh", "-c", "echo for $FALAJ_ALERT of $FALAJ_ENDPOINT"))
    watched = Watched(small, Wishes(actions=(Act(do="retrain", job=job),)))
    acted(watched)
    [new] = [one for one in all_jobs(small) if one.id != job]

    def state() -> str:
        small.app.jobs.step()
        return small.call(jobs.SHOW_JOB, jobs.OneJob(project=PROJECT, job=new.id)).state

    until(lambda: state() == "done", lambda: small.clock.forward(SECOND // 10))
    log = small.call(jobs.READ_LOG, jobs.ReadLog(project=PROJECT, job=new.id))
    assert log.text == f"for {watched.alert().id} of scores\n"


def test_who_may_submit_no_jobs_any_more_has_none_submitted(small: Platform) -> None:
    small.app.jobs.step()
    emma = small.person("emma", Role.ENGINEER)
    job = submitted(small)
    wishes = Wishes(actions=(Act(do="retrain", job=job),))
    watched = Watched(small, wishes, by=small.call(WHOAMI, Nothing(), emma).id)
    small.call(members.REMOVE_MEMBER, members.RemoveMember(project=PROJECT, member="emma", role=Role.ENGINEER))
    action = acted(watched)
    assert action.state == "failed"
    assert action.words.startswith("emma, who set the monitor, may not do that any more")
    assert [one.id for one in all_jobs(small)] == [job]


def test_a_job_of_another_project_or_none_is_not_there(small: Platform) -> None:
    small.app.jobs.step()
    small.project("theirs")
    spec = Spec(command=("true",))
    theirs = small.call(jobs.SUBMIT_JOB, jobs.Submit(project="theirs", spec=spec)).job.id
    action = acted(Watched(small, Wishes(actions=(Act(do="retrain", job=theirs),))))
    assert (action.state, action.words) == ("failed", f"There is no job {theirs!r} here.")
    small.call(jobs.CANCEL_JOB, jobs.Cancel(project="theirs", job=theirs))
    small.app.jobs.step()


# Trouble


def test_killed_before_it_is_kept_nothing_was_done_and_the_next_one_does_it_once(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from tests.monitoring.alerts.platform import Watched, drift
from tests.monitoring.alerts.test_acting import BACK, act
from tests.serving.control.platform import Platform

platform = Platform(Path({str(tmp_path)!r}))
Watched(platform, BACK, revisions=3).sees(drift(revision=3))
act(platform)
"""
    killed = subprocess.run([sys.executable, "-c", program], env={**os.environ, "FALAJ_FAILPOINT": "alerts.acted"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    platform = Platform(tmp_path)
    try:
        platform.clock.forward(MINUTE)
        assert answering(platform) == 3
        act(platform)
        act(platform)
        assert answering(platform) == 2
        assert [leaf.facts["state"] for leaf in platform.leaves("alert.act")] == ["done"]
    finally:
        platform.close()


def test_what_fails_for_a_while_is_tried_again_and_given_up_after_an_hour(
    small: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(small, BACK, revisions=2)

    def unreachable(*_: Any) -> None:
        raise Unavailable("The key ring does not answer.")

    with monkeypatch.context() as broken:
        broken.setattr("falaj.monitoring.deeds.way_back", unreachable)
        assert acted(watched, revision=2).state == "ready"
    small.clock.forward(10 * SECOND)
    act(small)
    assert watched.alert().actions[0].state == "done"
    small.clock.forward(2 * HOUR)
    watched.wait(MINUTE)
    small.promote(2)
    watched.sees(drift(revision=2))
    small.clock.forward(HOUR + SECOND)
    with monkeypatch.context() as broken:
        broken.setattr("falaj.monitoring.deeds.way_back", unreachable)
        act(small)
    assert (watched.alerts()[0].actions[-1].state, answering(small)) == ("failed", 2)


def stuck(watched: Watched, at: int) -> dict[str, Any]:
    """An action that nobody can read, and that comes before all others."""
    alert = watched.alert().id
    place = {"id": "0" * 32, "project": watched.project, "alert": alert, "monitor": watched.id, "kind": "roll-back"}
    return {**place, "state": "ready", "words": "", "wanted": "[", "wisher": "{}", "at": at, "decided": None, "decided_by": ""}


def test_an_odd_action_holds_up_no_other_and_is_given_up_after_an_hour(
    small: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("falaj.monitoring.acting.AT_ONCE", 1)
    watched = Watched(small, BACK, revisions=2)
    watched.sees(drift(revision=2))
    small.app.database.write(lambda work: alert_store.add_action(work, stuck(watched, small.clock.now())))
    assert small.app.monitoring.acting.step(small.clock.now())
    act(small)
    states = {one.id: one.state for one in watched.alert().actions}
    assert (states.pop("0" * 32), list(states.values()), answering(small)) == ("ready", ["done"], 1)
    small.clock.forward(HOUR)
    act(small)
    [odd] = [one for one in watched.alert().actions if one.id == "0" * 32]
    assert (odd.state, odd.words) == ("failed", "It could not be done: ValidationError.")


def test_what_cannot_be_sent_keeps_nothing_from_being_done(small: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(*_: Any) -> None:
        raise RuntimeError("as nobody thought of it")

    monkeypatch.setattr("falaj.monitoring.store.alerts.waiting_lines", odd)
    watched = Watched(small, BACK, revisions=2)
    watched.sees(drift(revision=2))
    small.app.monitoring.tend(small.clock.now())
    assert (watched.alert().actions[0].state, answering(small)) == ("done", 1)
