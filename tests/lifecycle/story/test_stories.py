"""The story of a version: whole, proven, told to whom may hear it, and never broken by what has gone since."""

from dataclasses import replace

import pytest
from sqlalchemy import delete, update

from falaj.base.clock import SECOND
from falaj.base.errors import NotFound
from falaj.datasets.operations.datasets import DELETE_DATASET, DeleteDataset
from falaj.governance.identity.operations import DISABLE_USER, OneUser
from falaj.governance.ledger.signatures import is_genuine
from falaj.governance.ledger.store import leaves
from falaj.governance.ledger.trees import includes, leaf_hash
from falaj.governance.roles import Role
from falaj.lifecycle.operations.gates import Gate
from falaj.lifecycle.operations.pipelines import APPLY_PIPELINE, DECIDE_STEP, LIST_RUNS, Apply, Decide, ListRuns
from falaj.lifecycle.operations.stories import Story
from falaj.lifecycle.operations.triggers import SET_TRIGGER, SetTrigger, Trigger
from falaj.lifecycle.operations.words import Definition, Step
from falaj.monitoring.operations import monitors
from falaj.operations.messages import adapter
from falaj.registry.operations import models, promotions
from falaj.registry.operations.versions import CREATE_VERSION, SHOW_VERSION, CreateVersion, OneVersion
from falaj.registry.store import tables
from falaj.serving.operations.endpoints import DELETE_ENDPOINT, OneEndpoint
from falaj.serving.operations.words import Arm
from falaj.tracking.operations.runs import DELETE_RUN, OneRun
from tests.lifecycle.story.told import Told, events, states
from tests.serving.control.platform import PROJECT, said

NASTY = "<script>alert(1)</script>'\"&"
FOUR_EYES = (
    'forbid (principal, action == Action::"model.promote", resource) '
    "when { context has promotion && context.promotion.approvals < 1 };"
)


def promote(told: Told, version: int = 1, token: str = "", reason: str = "") -> promotions.Promotion:
    request = promotions.Promote(project=PROJECT, model="late", version=version, reason=reason)
    made: promotions.Promotion = told.call(promotions.PROMOTE, request, token)
    return made


def deploy(told: Told, version: int = 1, **fields: object) -> None:
    told.platform.deploy(version, model="late", **fields)


def test_it_goes_from_raw_data_to_traffic(told: Told) -> None:
    engineer = told.platform.person("maryam", Role.ENGINEER)
    told.write()
    told.check(least=1)
    data = told.write(b"id,late\n4,0\n")
    version = told.trained(data, engineer)
    promote(told, reason="better in June")
    deploy(told)
    told.trained(data, engineer)
    deploy(told, 2, mode="canary", share=1000)
    story = told.story()
    assert story.summary == (
        f"Version 1 of late answers 90 % of `scores` since {str(story.asked)[:10]}, trained on flights@2 by maryam. "
        "It is the champion."
    )
    assert [(one.name, one.version, one.rows, one.distance) for one in story.data] == [
        ("flights", 2, 4, 2),
        ("flights", 1, 3, 3),
    ]
    assert [finding.check for finding in story.data[0].findings] == ["early"]
    assert story.training is not None
    assert (story.training.by, story.training.name, story.training.status) == ("maryam", "deep", "RUNNING")
    assert [(one.name, one.value) for one in story.training.metrics] == [("auc", 0.9)]
    assert len(story.sbom) == 64
    assert story.version.id == version.id
    assert [(span.share, span.until is None) for span in story.served[0].spans] == [(10_000, False), (9_000, True)]
    assert story.served[0].spans[0].end == "deploy"
    assert [one.at for one in story.events] == sorted(one.at for one in story.events)
    assert events(story) == [
        "flights v1 was published: 3 rows",
        "flights v2 was published: 4 rows",
        "the run deep began in " + story.training.experiment,
        "version 1 of late was registered and signed",
        "champion was pointed to version 1: better in June",
        "scores: revision 1 answers 100 %",
        "scores: revision 1 answers 90 %",
    ]


def test_every_event_is_proven_and_anybody_can_check_that_without_the_platform(told: Told) -> None:
    told.trained(told.write())
    promote(told)
    deploy(told)
    story = told.story()
    assert states(story) == {"proven"}
    assert story.ledger.proven == len(story.events) == 5
    head = story.ledger.head
    assert head is not None
    assert is_genuine(head, {id: bytes.fromhex(key) for id, key in story.ledger.keys.items()})
    for one in story.events:
        proof = one.recorded
        assert proof is not None
        assert proof.index is not None
        path = [bytes.fromhex(node) for node in proof.path]
        assert includes(bytes.fromhex(head.root), head.size, leaf_hash(proof.record.encode()), proof.index, path)
        assert proof.leaf in proof.record


def test_what_has_no_head_yet_says_so(small: Told) -> None:
    small.trained()
    story = small.story(sequenced=False)
    assert states(story) == {"waiting"}
    assert story.ledger.head is None
    assert "No head of the ledger is signed yet" in story.ledger.words


def test_a_row_that_somebody_changed_is_told_and_so_is_a_leaf_that_is_gone(small: Told) -> None:
    small.trained()
    promote(small)
    small.trained()
    small.platform.app.database.write(lambda work: work.execute(update(tables.moves).values(before=7)))
    small.platform.app.database.write(lambda work: work.execute(delete(leaves).where(leaves.c.operation == "version.create")))
    story = small.story()
    found = {one.words: one.recorded for one in story.events}
    registered, moved = (
        found[words] for words in ("version 1 of late was registered and signed", "champion was pointed to version 1")
    )
    assert registered is not None
    assert moved is not None
    assert (registered.state, moved.state) == ("missing", "differs")
    assert "before" in moved.words
    assert story.ledger.troubled == 2
    assert "falaj audit verify" in story.ledger.words


def test_an_approval_is_told_with_who_asked_and_who_gave_it(small: Told) -> None:
    small.platform.policy(FOUR_EYES)
    engineer, validator = small.platform.person("maryam", Role.ENGINEER), small.platform.person("khalid", Role.VALIDATOR)
    small.trained(token=engineer)
    asked = promote(small, token=engineer)
    assert "waiting for approval as champion" in small.story().summary
    given = promotions.GiveApproval(project=PROJECT, approval=asked.approval, note="looked at")
    small.call(promotions.GIVE_APPROVAL, given, validator)
    promote(small, token=engineer)
    story = small.story()
    assert "approved by khalid" in story.summary
    assert [one.by for one in story.events[-3:]] == ["maryam", "khalid", "maryam"]
    assert [one.stage for one in story.events[-3:]] == ["approval", "approval", "registry"]
    assert states(story) == {"proven"}


def test_what_approval_was_asked_for_without_a_move_is_proven_as_well(small: Told) -> None:
    small.platform.policy(FOUR_EYES)
    engineer = small.platform.person("maryam", Role.ENGINEER)
    small.trained(token=engineer)
    asked = promotions.Promote(project=PROJECT, model="late", version=1)
    assert small.call(promotions.ASK_APPROVAL, asked, engineer).state == "waiting"
    story = small.story()
    assert events(story)[-1] == "approval was asked for: champion to version 1"
    assert states(story) == {"proven"}


def test_the_job_of_a_gate_is_found_in_the_leaf_of_the_call_that_ran_the_gate(told: Told) -> None:
    told.trained()
    told.judged(Gate(name="tests", kind="command", command=("true",)), Gate(name="also", kind="command", command=("true",)))
    story = told.story()
    assert [(one.gate, one.passed) for one in story.gates] == [("also", False), ("tests", False)]
    assert sum(words.startswith("the gate job gate") for words in events(story)) == 2
    assert states(story) == {"proven"}


def test_pipelines_are_told_with_what_started_them_and_who_answered(told: Told) -> None:
    maryam, khalid = (told.platform.person(name, Role.ENGINEER) for name in ("maryam", "khalid"))
    told.trained(token=maryam)  # version 1, by hand
    asks = Step(name="asks", kind="approval", question="Shall version 2 answer?", after=("made",))
    hands = Step(name="hands", kind="value", arguments={"value": {"$": "steps.made"}}, after=("asks",))
    arguments = {"model": "late", "holder": told.run(token=maryam)}
    made = Step(name="made", kind="operation", operation="version.create", arguments=arguments)
    run = told.piped("nightly", made, asks, hands, token=maryam, words="as every night")
    assert [(one.question, one.said) for one in told.story(2).pipelines[0].answers] == [("Shall version 2 answer?", "waiting")]
    answer = Decide(project=PROJECT, run=run, step="asks", agree=True)
    told.call(DECIDE_STEP, answer, khalid)
    told.turn(run, "")
    refused = told.piped("again", Step(name="made", kind="value", arguments={"value": {"model": "late", "version": 2}}), asks)
    told.call(DECIDE_STEP, replace(answer, run=refused, agree=False, reason="too late"), khalid)
    story = told.story(2)
    assert [(one.pipeline, one.made, one.by, one.trigger, one.why) for one in story.pipelines] == [
        ("nightly", True, "maryam", "", "as every night"),
        ("again", False, "owner", "", ""),
    ]
    answers = [one.answers[0] for one in story.pipelines]
    assert [(one.said, one.by, one.words) for one in answers] == [
        ("agreed", "khalid", ""),
        ("refused", "khalid", "khalid refused. too late"),
    ]
    assert [words for words in events(story) if "nightly" in words or "again" in words] == [
        "the pipeline nightly was started: as every night",
        "agreed in nightly: Shall version 2 answer?",
        "the pipeline again was started",
        "refused in again: Shall version 2 answer?",
    ]
    assert states(story) == {"proven"}
    assert told.story(1).pipelines == ()


def test_what_a_trigger_started_is_told_in_the_name_of_whoever_set_it(small: Told) -> None:
    maryam = small.platform.person("maryam", Role.ENGINEER)
    small.call(models.CREATE_MODEL, models.CreateModel(project=PROJECT, model="late"))
    arguments = {"model": "late", "holder": small.run()}
    made = Step(name="made", kind="operation", operation="version.create", arguments=arguments)
    small.call(APPLY_PIPELINE, Apply(project=PROJECT, pipeline="nightly", definition=Definition(steps=(made,))), maryam)
    wish = Trigger(kind="dataset", about="flights")
    small.call(SET_TRIGGER, SetTrigger(project=PROJECT, pipeline="nightly", trigger="rows", wish=wish), maryam)
    small.write()
    small.platform.app.lifecycle.trigger(small.platform.clock.now())
    [run] = small.call(LIST_RUNS, ListRuns(project=PROJECT)).items
    small.turn(run.id, "")
    story = small.story()
    assert [(one.made, one.trigger, one.by) for one in story.pipelines] == [(True, "rows", "maryam")]
    assert events(story)[1].startswith("the pipeline nightly was started by the trigger rows: ")
    assert states(story) == {"proven"}


# Who may hear it


def test_a_viewer_hears_it_and_a_stranger_is_told_what_is_told_of_one_that_does_not_exist(small: Told) -> None:
    small.trained(small.write())
    viewer = small.platform.person("omar", Role.VIEWER)
    small.platform.project("other")
    stranger = small.platform.person("eve", Role.ADMIN, project="other")
    assert small.story(token=viewer).data == small.story().data
    words = []
    for version in (1, 99):
        with pytest.raises(NotFound) as refused:
            small.story(version, token=stranger)
        words.append(str(refused.value))
    assert words[0] == words[1]
    for version, model in ((99, "late"), (1, "nothing")):
        with pytest.raises(NotFound) as missing:
            small.story(version, model, viewer)
        with pytest.raises(NotFound) as shown:
            small.call(SHOW_VERSION, OneVersion(project=PROJECT, model=model, version=version), viewer)
        assert str(missing.value) == str(shown.value)


def test_what_policy_keeps_from_a_reader_is_said_to_be_kept_and_leaves_no_trace(small: Told) -> None:
    small.trained(small.write(dataset="secretive"))
    deploy(small, name="hidden-name")
    viewer = small.platform.person("omar", Role.VIEWER)
    for action in ("endpoint.read", "dataset.read", "job.read", "monitor.read", "lineage.read", "pipeline.read"):
        text = f'forbid (principal, action, resource) when {{ context.permission == "{action}" && principal.name == "omar" }};'
        small.platform.policy(text, name=action.replace(".", "-"))
    refusals = len(small.platform.leaves("endpoint.list"))
    story = small.story(token=viewer)
    assert {one.chapter for one in story.hidden} >= {"serving", "data", "cost", "pipelines"}
    assert all("is refused by project/" in one.words for one in story.hidden)
    assert story.served == ()
    assert story.data == ()
    document = adapter(Story).dump_json(story).decode()
    assert "hidden-name" not in document
    assert "secretive" not in document
    assert "answers where its reader may not see it, trained on data that its reader may not see" in story.summary
    assert len(small.platform.leaves("endpoint.list")) == refusals
    assert small.story().hidden == ()


# What has gone since, or never was


def test_a_version_with_nothing_behind_it_has_a_story_too(told: Told) -> None:
    told.call(models.CREATE_MODEL, models.CreateModel(project=PROJECT, model=NASTY.replace("/", "")))
    request = CreateVersion(project=PROJECT, model=NASTY.replace("/", ""), source="s3://elsewhere/model")
    told.call(CREATE_VERSION, request)
    story = told.story(1, NASTY.replace("/", ""))
    assert story.summary == f"Version 1 of {NASTY.replace('/', '')} has never answered, made, registered by owner."
    assert (story.data, story.training, story.served, story.jobs, story.moves) == ((), None, (), (), ())
    assert states(story) == {"proven"}


def test_deleted_data_runs_and_endpoints_and_people_who_left_do_not_break_it(told: Told) -> None:
    engineer = told.platform.person("maryam", Role.ENGINEER)
    version = told.trained(told.write(token=engineer), engineer)
    deploy(told)
    told.call(DELETE_ENDPOINT, OneEndpoint(project=PROJECT, endpoint="scores"))
    told.call(DELETE_DATASET, DeleteDataset(project=PROJECT, dataset="flights", even_if_needed=True))
    told.call(DELETE_RUN, OneRun(project=PROJECT, run=version.run))
    told.call(DISABLE_USER, OneUser(user="maryam"))
    story = told.story()
    assert [(one.name, one.version, one.state, one.rows) for one in story.data] == [("flights", 1, "deleted", 3)]
    assert story.training is not None
    assert (story.training.deleted, story.training.by) == (True, "maryam")
    [served] = story.served
    assert served.deleted is not None
    assert (served.share, served.spans[0].end, served.spans[0].until) == (0, "deleted", served.deleted)
    assert "answered at `scores` until" in story.summary
    assert "scores was deleted" in events(story)
    assert states(story) == {"proven"}


def test_data_that_only_a_client_described_is_told_as_that(small: Told) -> None:
    data = small.write()
    elsewhere = type(data)(
        **{name: getattr(data, name) for name in data.__dataclass_fields__} | {"lineage": "flights@0123456789"}
    )
    small.trained(elsewhere)
    [found] = small.story().data
    assert (found.name, found.version, found.state) == ("flights", 0, "elsewhere")


def test_an_endpoint_that_took_the_name_of_a_deleted_one_is_another(small: Told) -> None:
    small.trained()
    small.trained()
    deploy(small)
    small.call(DELETE_ENDPOINT, OneEndpoint(project=PROJECT, endpoint="scores"))
    deploy(small, 2)
    assert small.story().served[0].share == 0
    assert small.story(2).served[0].share == 10_000


# What it did


def test_traffic_and_alerts_are_those_of_the_time_in_which_it_answered(small: Told) -> None:
    small.trained()
    deploy(small)
    small.trained()
    deploy(small, 2)
    endpoint = small.platform.show()
    small.call(monitors.APPLY_MONITOR, monitors.ApplyMonitor(project=PROJECT, endpoint="scores", wishes=OBJECTIVE))
    plane = small.platform.plane()
    for _ in range(3):
        plane.report(said(endpoint, 2, requests=500, errors=250, rows=500))
        small.platform.clock.forward(30 * SECOND)
        small.platform.app.monitoring.step(small.platform.clock.now())
    first, second = small.story(), small.story(2)
    assert second.served[0].traffic is not None
    assert (second.served[0].traffic.requests, second.served[0].traffic.errors) == (1500, 750)
    assert first.served[0].traffic is None
    assert [one.severity for one in second.served[0].alerts]
    assert first.served[0].alerts == ()
    assert states(second) == {"proven"}


def test_a_revision_that_gets_copies_alone_answers_nothing(small: Told) -> None:
    small.trained()
    deploy(small)
    small.trained()
    deploy(small, 2, mode="shadow", share=5000)
    story = small.story(2)
    assert "answers nothing, and gets copies at `scores`" in story.summary
    assert story.served[0].share == 0
    assert [(span.role, span.share) for span in story.served[0].spans] == [("shadow", 5000)]
    small.platform.split(Arm(revision=2, share=10_000))
    assert small.story(2).served[0].share == 10_000


OBJECTIVE = monitors.Wishes(objectives=(monitors.Objective(kind="availability", share=0.999),))
