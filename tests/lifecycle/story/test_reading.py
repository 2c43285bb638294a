"""Asking in a reader's name: by their own right, without a trace, and never what would leave one."""

import pytest

from falaj.base.errors import Forbidden
from falaj.database.work import Context, UnitOfWork
from falaj.governance.roles import Role
from falaj.lifecycle.story.reading import Reader
from falaj.registry.operations.models import SEARCH_MODELS, SearchModels
from falaj.registry.operations.versions import LIST_VERSION_FILES, VERIFY_VERSION, ListVersionFiles, OneVersion
from falaj.serving.operations.endpoints import READ_LOGS, ReadLogs
from tests.lifecycle.story.told import Told
from tests.serving.control.platform import PROJECT


def context_of(told: Told, token: str) -> Context:
    platform = told.platform.app

    def made(work: UnitOfWork) -> Context:
        identity = platform.gate.authenticate(work, token, platform.clock.now())
        asked = SearchModels(project=PROJECT)
        grant = platform.gate.authorise(work, identity, SEARCH_MODELS, asked)
        return Context(work=work, identity=identity, project=grant.project, now=platform.clock.now(), request_id="r", facts={})

    return platform.database.read(made)


def test_what_leaves_a_trace_is_never_asked_in_somebodys_name(small: Told) -> None:
    small.trained()
    context = context_of(small, small.platform.owner)
    asked = OneVersion(project=PROJECT, model="late", version=1)
    with pytest.raises(ValueError, match="leaves a trace"):
        small.platform.app.dispatcher.read_for(context, VERIFY_VERSION, asked)


def test_a_refusal_is_noted_once_and_what_is_not_there_is_none(small: Told) -> None:
    small.trained()
    text = 'forbid (principal, action, resource) when { context.permission == "version.read" && principal.name == "omar" };'
    viewer = small.platform.person("omar", Role.VIEWER)
    reader = Reader(small.platform.app.dispatcher.read_for, context_of(small, viewer))
    assert reader.ask("data", LIST_VERSION_FILES, ListVersionFiles(project=PROJECT, model="late", version=9)) is None
    assert reader.hidden == ()
    small.platform.policy(text)
    for _ in range(2):
        assert reader.ask("data", LIST_VERSION_FILES, ListVersionFiles(project=PROJECT, model="late", version=1)) is None
    [hidden] = reader.hidden
    assert hidden.chapter == "data"
    assert "is refused by project/added" in hidden.words
    with pytest.raises(Forbidden):
        reader.must(LIST_VERSION_FILES, ListVersionFiles(project=PROJECT, model="late", version=1))


def test_all_pages_are_read_as_far_as_there_are_not_too_many(small: Told) -> None:
    for _ in range(3):
        small.trained()
    reader = Reader(small.platform.app.dispatcher.read_for, context_of(small, small.platform.owner))
    asked = lambda cursor: ListVersionFiles(project=PROJECT, model="late", version=1, limit=1, cursor=cursor)  # noqa: E731
    files, more = reader.every("data", LIST_VERSION_FILES, asked)
    assert sorted(one.name for one in files) == ["MLmodel", "model.onnx"]
    assert not more
    assert READ_LOGS.record.value == "sensitive-read"
    with pytest.raises(ValueError, match="leaves a trace"):
        reader.ask("serving", READ_LOGS, ReadLogs(project=PROJECT, endpoint="scores"))
