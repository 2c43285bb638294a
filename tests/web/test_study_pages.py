"""The page of a study: what its trials came to, and that nobody's names do harm there."""

import json
from xml.etree import ElementTree

import pytest

from falaj.tracking.operations import experiments, runs
from falaj.tracking.operations.words import Param, Tag
from falaj.training.search import written
from falaj.training.search.spaces import read_space
from falaj.training.search.studies import Objective, Study, Trial
from tests.web import tracked
from tests.web.conftest import Site

NASTY = "<script>alert(1)</script>"


@pytest.fixture
def fraud(site: Site) -> Site:
    site.project("fraud", "Card fraud")
    return site


def kept(site: Site, study: Study, trials: list[Trial], **tags: str) -> int:
    """A study as the command line leaves it behind."""
    said = written.study_tags(study, {"job": {}}, 8000) | tags
    request = experiments.CreateExperiment(
        project="fraud", name=study.name, tags=tuple(Tag(key=key, value=text) for key, text in said.items())
    )
    made = site.call(experiments.CREATE_EXPERIMENT, request)
    number = int(made.id)
    for trial in trials:
        marks = written.trial_tags(trial) | {written.TRIAL: str(trial.number), written.JOB: trial.job}
        begun = runs.ImportRun(
            project="fraud",
            run=trial.run or written.run_id("fraud", number, int(made.created), trial.number),
            experiment=number,
            name=f"trial {trial.number}",
            status="FINISHED",
            started=1,
            params=tuple(Param(key=name, value=str(chosen)) for name, chosen in trial.params.items()),
            tags=tuple(Tag(key=key, value=text) for key, text in marks.items()),
        )
        site.call(runs.IMPORT_RUN, begun)
    return number


def page(site: Site, path: str) -> str:
    with site.client(site.session()) as client:
        answer = client.get(path)
    assert answer.status_code == 200
    return answer.text


def test_a_study_shows_its_history_front_weights_and_every_trial(fraud: Site) -> None:
    space = read_space({"lr": "0.0..1.0", "act": "relu,tanh"})
    study = Study(name="nets", space=space, objectives=(Objective(metric="loss"), Objective(metric="speed", direction="max")))
    complete = [
        Trial(number=place, params={"lr": place / 10, "act": "relu"}, state="complete", values=(1 / (place + 1), 4.0 - place))
        for place in range(4)
    ]
    other = Trial(number=4, params={"lr": 0.5, "act": "tanh"}, state="failed", words=f"no {NASTY}", job="a" * 32)
    number = kept(fraud, study, [*complete, other], **{written.IMPORTANCE: json.dumps({"lr": 0.9, "act": 0.1})})
    shown = page(fraud, f"/projects/fraud/experiments/{number}/study")
    assert "4 complete, 1 failed" in shown
    assert shown.count('<span class="badge good">best</span>') == 4
    assert "90%" in shown
    assert f'href="/projects/fraud/jobs/{"a" * 32}"' in shown
    assert NASTY not in shown
    pictures = [ElementTree.fromstring(f"<svg{part.split('</svg>')[0]}</svg>") for part in shown.split("<svg")[1:]]
    kinds = [picture.attrib.get("class", "") for picture in pictures]
    assert kinds.count("scatter") == 3
    assert kinds.count("parallel") == 1
    assert f'href="/projects/fraud/experiments/{number}/study"' in page(fraud, f"/projects/fraud/experiments/{number}")


def test_an_experiment_that_is_no_study_says_how_to_begin_one(fraud: Site) -> None:
    number = tracked.experiment(fraud)
    assert "falaj tune run" in page(fraud, f"/projects/fraud/experiments/{number}/study")
    assert "/study" not in page(fraud, f"/projects/fraud/experiments/{number}")
    empty = kept(fraud, Study(name="none", space=read_space({"x": "1..2"}), objectives=(Objective(metric="loss"),)), [])
    assert "No trial yet" in page(fraud, f"/projects/fraud/experiments/{empty}/study")


def test_tags_that_say_no_limits_or_weights_break_no_page(fraud: Site) -> None:
    study = Study(name="odd", space=read_space({"x": "1..2"}), objectives=(Objective(metric="loss"),))
    limits = kept(fraud, study, [], **{written.LIMITS: "[" * 8000})
    assert "it says no limits any more" in page(fraud, f"/projects/fraud/experiments/{limits}/study")
    other = Study(name="light", space=study.space, objectives=study.objectives)
    weights = kept(fraud, other, [], **{written.IMPORTANCE: '{"x": "<b>", "y": NaN, "z": 1e999}'})
    assert "No trial yet" in page(fraud, f"/projects/fraud/experiments/{weights}/study")


def test_a_run_that_somebody_put_into_a_study_is_not_shown_as_a_trial(fraud: Site) -> None:
    study = Study(name="quiet", space=read_space({"x": "1..9"}), objectives=(Objective(metric="loss"),))
    own = Trial(number=0, params={"x": 1}, state="complete", values=(0.5,))
    planted = Trial(number=50, params={"x": 3}, state="complete", values=(-1e308,), run="ad" * 16)
    shown = page(fraud, f"/projects/fraud/experiments/{kept(fraud, study, [own, planted])}/study")
    assert "1 complete" in shown
    assert "ad" * 16 not in shown
