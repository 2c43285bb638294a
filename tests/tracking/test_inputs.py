"""What runs used and made is kept with them, found by searches, and linked into lineage."""

import pytest

from falaj.base.errors import NotFound
from falaj.lineage.graph import Node, ancestors, descendants
from falaj.tracking.operations import runs as declared
from falaj.tracking.operations.runs import Dataset, DatasetInput, ModelOutput
from falaj.tracking.operations.words import Tag
from tests.tracking.room import Caller, Room


def data(name: str, digest: str = "d1", context: str = "", **described: str) -> DatasetInput:
    tags = (Tag(key="mlflow.data.context", value=context),) if context else ()
    return DatasetInput(dataset=Dataset(name=name, digest=digest, **described), tags=tags)


def use(caller: Caller, run: str, *datasets: DatasetInput, models: tuple[str, ...] = ()) -> None:
    caller.call(declared.LOG_INPUTS, run=run, datasets=datasets, models=models)


def test_inputs_and_outputs_are_shown_with_the_run(amal: Caller) -> None:
    run, used, made = amal.start(), amal.new_model("used"), amal.new_model("made")
    iris = data("iris", context="train", source_type="http", source="http://x", schema="{}", profile='{"rows": 3}')
    for _ in range(2):
        use(amal, run, iris, data("iris", "d2"), models=(used,))
        amal.call(declared.LOG_OUTPUTS, run=run, models=(ModelOutput(model=made, step=5),))
    shown = amal.show(run)
    assert sorted(shown.datasets, key=lambda one: one.dataset.digest) == [iris, data("iris", "d2")]
    assert shown.models_used == (used,)
    assert shown.models_made == (ModelOutput(model=made, step=5),)
    (found,) = amal.call(declared.SEARCH_RUNS).items
    assert found == shown


def test_a_dataset_stays_as_it_was_described_first(room: Room, amal: Caller) -> None:
    first, second = amal.start(), amal.start()
    use(amal, first, data("iris", source="one", context="train"), data("iris", source="ignored", context="ignored"))
    use(amal, second, data("iris", source="two", context="test"))
    use(room.caller("beta"), room.caller("beta").start(), data("iris", source="theirs"))
    shown = [amal.show(run).datasets[0] for run in (first, second)]
    assert [one.dataset.source for one in shown] == ["one", "one"]
    assert [one.tags[0].value for one in shown] == ["train", "test"]


def test_runs_are_found_by_the_data_they_used(amal: Caller) -> None:
    for name, datasets in {
        "a": [data("iris", context="train"), data("iris", "d2", context="test")],
        "b": [data("Iris", context="train")],
        "c": [],
    }.items():
        use(amal, amal.run_with(name), *datasets)
    assert amal.search("datasets.name = 'iris'") == ["a"]
    assert amal.search("dataset.name ILIKE 'IRIS'") == ["b", "a"]
    assert amal.search("datasets.digest IN ('d2', 'd3')") == ["a"]
    assert amal.search("datasets.context = 'train'", "start_time") == ["a", "b"]
    assert amal.search("datasets.context != 'train'") == ["a"]
    assert amal.search("datasets.name != 'iris'") == ["b"]


def test_the_data_of_experiments_is_listed_once(room: Room, amal: Caller) -> None:
    one = amal.new_experiment("one")
    for experiment in (0, 0, one):
        use(amal, amal.start(experiment=experiment), data("iris", context="train"), data("extra"))
    hidden = amal.start()
    use(amal, hidden, data("hidden"))
    amal.call(declared.DELETE_RUN, run=hidden)
    use(room.caller("beta"), room.caller("beta").start(), data("secret"))
    found = amal.call(declared.FIND_DATASETS, experiments=(0, one)).items
    assert [(row.experiment, row.name, row.digest, row.context) for row in found] == [
        (0, "extra", "d1", ""),
        (0, "iris", "d1", "train"),
        (one, "extra", "d1", ""),
        (one, "iris", "d1", "train"),
    ]


def test_data_and_models_are_linked_to_the_run(amal: Caller) -> None:
    first, second, model = amal.start("first"), amal.start("second"), amal.new_model("net")
    use(amal, first, data("iris"))
    amal.call(declared.LOG_OUTPUTS, run=first, models=(ModelOutput(model=model),))
    use(amal, second, models=(model,))
    nodes = amal.read(lambda work: ancestors(work, amal.facts.id, Node(kind="run", id=second))).nodes
    assert [(node.kind, node.id, node.label) for node in nodes] == [
        ("model", model, "net"),
        ("run", first, "first"),
        ("dataset", "iris@d1", "iris"),
    ]
    walk = amal.read(lambda work: descendants(work, amal.facts.id, Node(kind="dataset", id="iris@d1")))
    assert [edge.relation for edge in walk.edges] == ["input", "output", "input"]


def test_a_model_of_another_project_is_neither_input_nor_output(room: Room, amal: Caller) -> None:
    model, badr = amal.new_model(), room.caller("beta")
    run = badr.start()
    with pytest.raises(NotFound, match="no logged model"):
        use(badr, run, models=(model,))
    with pytest.raises(NotFound, match="no logged model"):
        badr.call(declared.LOG_OUTPUTS, run=run, models=(ModelOutput(model=model),))
    assert badr.show(run).models_used == badr.show(run).models_made == ()
