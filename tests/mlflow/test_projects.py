"""Which project a request means when it does not say so."""

import pytest

from falaj.api.mlflow.projects import SECONDS, Choices, only_project, said_project
from falaj.base.clock import Moment
from falaj.base.errors import Invalid, NotFound
from falaj.governance.projects.operations import ListProjects, Projects, ProjectView


def projects(*names: str, others: tuple[str, ...] = (), more: str = "") -> Projects:
    views = [_view(name, ("scientist",)) for name in names] + [_view(name, ()) for name in others]
    return Projects(items=tuple(views), next=more)


def _view(name: str, roles: tuple[str, ...]) -> ProjectView:
    return ProjectView(id="0" * 32, name=name, description="", zones=("home",), archived=False, roles=roles, created=Moment(0))


def test_the_address_or_the_header_says_it() -> None:
    assert said_project("", "") == ""
    assert said_project("fraud", "") == said_project("", "fraud") == said_project("fraud", "fraud") == "fraud"
    with pytest.raises(Invalid, match=r"'fraud'.*'churn'"):
        said_project("fraud", "churn")


@pytest.mark.parametrize("name", ["../x", "A", "a b", "x" * 101, "a/b", "é", "fraud\n"])
def test_what_cannot_be_a_project_is_none(name: str) -> None:
    with pytest.raises(NotFound, match="no project"):
        said_project("", name)


def test_the_only_project_goes_without_saying() -> None:
    assert only_project(projects("fraud", others=("seen", "not-mine"))) == "fraud"


def test_among_several_it_is_the_one_called_default() -> None:
    assert only_project(projects("churn", "default", "fraud")) == "default"


def test_otherwise_the_caller_is_told_how_to_say_it() -> None:
    with pytest.raises(Invalid, match=r"churn, fraud.*MLFLOW_WORKSPACE.*/mlflow/PROJECT"):
        only_project(projects("churn", "fraud"))
    with pytest.raises(Invalid, match="no project yet"):
        only_project(projects(others=("seen",)))
    with pytest.raises(Invalid, match=r"\.\.\."):
        only_project(projects("churn", more="further"))


def test_a_choice_is_remembered_for_a_while_and_for_one_caller_alone() -> None:
    now, asked = [0.0], []

    def mine(wish: ListProjects) -> Projects:
        asked.append(wish)
        return projects(f"p{len(asked)}")

    choices = Choices(clock=lambda: now[0])
    assert [choices.choose("a", mine) for _ in range(3)] == ["p1"] * 3
    assert choices.choose("b", mine) == "p2"
    now[0] += SECONDS
    assert choices.choose("a", mine) == "p3"
