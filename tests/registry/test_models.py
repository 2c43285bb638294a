"""Registered models: named, tagged, found, renamed, deleted."""

import json
import threading

import pytest

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.operations.messages import adapter
from falaj.registry.operations import models as declared
from falaj.registry.operations import promotions
from falaj.registry.operations import versions as version_operations
from falaj.registry.operations.words import ModelTag
from tests.registry.platform import PROJECT, Platform


def one(name: str = "fraud") -> declared.OneModel:
    return declared.OneModel(project=PROJECT, model=name)


def names(platform: Platform, filter: str = "", order: tuple[str, ...] = (), limit: int = 100) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        request = declared.SearchModels(project=PROJECT, filter=filter, order=order, limit=limit, cursor=cursor)
        page = platform.call(declared.SEARCH_MODELS, request)
        found += [model.name for model in page.items]
        if not (cursor := page.next):
            return found


def test_a_model_is_created_and_shown_with_tags_aliases_and_newest_versions(platform: Platform) -> None:
    tags = (ModelTag(key="team", value="risk"),)
    request = declared.CreateModel(project=PROJECT, model="fraud", description="Cards.", tags=tags)
    assert platform.call(declared.CREATE_MODEL, request).versions == 0
    for _ in range(3):
        platform.register()
    platform.promote(2)
    stage = promotions.SetStage(project=PROJECT, model="fraud", version=1, stage="Staging")
    platform.call(promotions.SET_STAGE, stage)
    model = platform.call(declared.SHOW_MODEL, one())
    assert (model.description, model.versions, model.tags) == ("Cards.", 3, tags)
    assert [(alias.alias, alias.version) for alias in model.aliases] == [("champion", 2)]
    assert [(version.stage, version.version) for version in model.latest] == [("Staging", 1), ("None", 3)]
    assert platform.call(promotions.LATEST, one()).items == model.latest
    assert platform.call(declared.SEARCH_MODELS, declared.SearchModels(project=PROJECT)).items == (model,)


def test_a_name_is_taken_once(platform: Platform) -> None:
    platform.model()
    with pytest.raises(Conflict, match="already"):
        platform.model()
    platform.project("other")
    platform.model(project="other")
    outcomes: list[str] = []

    def make() -> None:
        try:
            platform.model("at once")
            outcomes.append("made")
        except Conflict:
            outcomes.append("taken")

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["made", "taken", "taken", "taken"]


@pytest.mark.parametrize("name", ["a/b", "a:b", "", "a\nb", "a\x00", "x" * 256])
def test_a_name_that_no_address_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="model"):
        adapter(declared.CreateModel).validate_json(json.dumps({"project": "default", "model": name}))


def test_a_renamed_model_keeps_versions_aliases_and_history(platform: Platform) -> None:
    platform.model()
    platform.register()
    platform.promote(1)
    platform.model("taken")
    with pytest.raises(Conflict):
        platform.call(declared.RENAME_MODEL, declared.RenameModel(project=PROJECT, model="fraud", name="taken"))
    platform.call(declared.RENAME_MODEL, declared.RenameModel(project=PROJECT, model="fraud", name="Card fraud – 2"))
    with pytest.raises(NotFound):
        platform.show(1)
    assert platform.show(1, "Card fraud – 2").aliases == ("champion",)
    assert [move.version for move in platform.history(name="Card fraud – 2")] == [1]
    verified = platform.call(version_operations.VERIFY_VERSION, platform.one(1, "Card fraud – 2"))
    assert verified.ok
    assert platform.model().versions == 0


def test_a_deleted_model_is_gone_its_history_stays_and_its_name_is_free(platform: Platform) -> None:
    platform.model()
    platform.register()
    platform.promote(1)
    at = platform.clock.now()
    platform.remove()
    platform.call(declared.DELETE_MODEL, one())
    for call in (lambda: platform.show(1), lambda: platform.register(), lambda: platform.call(declared.SHOW_MODEL, one())):
        with pytest.raises(NotFound):
            call()
    assert names(platform) == []
    assert [move.version for move in platform.history()] == [1, 0]
    platform.model()
    assert platform.register().version == 1
    assert platform.history() == []
    then = platform.as_of(at)
    assert (then.version, then.details) == (1, None)
    assert then.run


def test_a_model_is_described_and_tagged(platform: Platform) -> None:
    platform.model()
    described = declared.DescribeModel(project=PROJECT, model="fraud", description="Cards.")
    assert platform.call(declared.DESCRIBE_MODEL, described).description == "Cards."
    for value in ("a", "b"):
        platform.call(declared.TAG_MODEL, declared.TagModel(project=PROJECT, model="fraud", key="team", value=value))
    assert platform.call(declared.SHOW_MODEL, one()).tags == (ModelTag(key="team", value="b"),)
    for _ in range(2):
        platform.call(declared.UNTAG_MODEL, declared.UntagModel(project=PROJECT, model="fraud", key="team"))
    assert platform.call(declared.SHOW_MODEL, one()).tags == ()


def test_models_are_found_by_mlflows_filters(platform: Platform) -> None:
    for name in ("fraud", "Fraud 2", "churn"):
        platform.model(name)
    platform.call(declared.TAG_MODEL, declared.TagModel(project=PROJECT, model="churn", key="my team", value="it's"))
    assert names(platform) == names(platform, limit=1) == ["Fraud 2", "churn", "fraud"]
    assert names(platform, order=("name DESC",)) == ["fraud", "churn", "Fraud 2"]
    assert names(platform, order=("creation_timestamp DESC",)) == ["churn", "Fraud 2", "fraud"]
    assert names(platform, order=("timestamp ASC",))[0] == "fraud"
    assert names(platform, "name LIKE 'fraud%'") == ["fraud"]
    assert names(platform, "name ILIKE 'fraud%'") == ["Fraud 2", "fraud"]
    assert names(platform, "tags.`my team` = 'it''s'") == ["churn"]
    assert names(platform, "tags.`my team` IS NULL") == ["Fraud 2", "fraud"]
    assert names(platform, "name = 'fraud' AND tags.`my team` = 'it''s'") == []
    assert len(names(platform, "tags.`mlflow.prompt.is_prompt` = 'false'")) == 3
    for wrong in ("run_id = 'x'", "name > 'x'", "name = 'x'; DROP TABLE registry_models"):
        with pytest.raises(Invalid):
            names(platform, wrong)
    with pytest.raises(Invalid):
        platform.call(declared.SEARCH_MODELS, declared.SearchModels(project=PROJECT, cursor="bm8"))
