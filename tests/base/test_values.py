import copy
import dataclasses
import inspect
import json
import pickle
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from falaj.base.clock import Moment
from falaj.base.values import Id, Items, Message, Name, Note, Nothing, Personal, Range, Secret, Text, marks, value


@value
class Well(Message):
    name: Name
    depth: Annotated[int, Range(least=1, most=500)] = 10
    note: Note = ""
    key: Annotated[str, Text(shortest=2, longest=4), Secret()] = "abc"
    shares: Annotated[tuple[int, ...], Items(least=1, most=3)] = (1,)
    dug: Moment | None = None


wells = TypeAdapter(Well)


def reads(**fields):
    return wells.validate_json(json.dumps({"name": "a", **fields}))


def test_a_value_is_frozen_and_named_only():
    well = Well(name="a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        well.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del well.name
    with pytest.raises(TypeError, match="positional"):
        Well("a")
    assert well == Well(name="a")


@value
class Spring(Message):
    """Nothing of its kind is made before the test that makes the first one."""

    name: str
    minerals: list[str] = dataclasses.field(default_factory=list)


@value
class HotSpring(Spring):
    degrees: int = 40

    def __post_init__(self) -> None:
        if self.degrees < 30:
            raise ValueError("not hot")


def test_what_is_missing_or_unknown_is_told_by_name_before_and_after_the_first_is_made():
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Spring\.__init__\(\) missing 1 required keyword-only argument: 'name'"):
            Spring()
        with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
            Spring(name="a", depth=1)
        Spring(name="a")


def test_each_value_gets_a_default_of_its_own_where_one_is_made():
    one, other = Spring(name="a"), Spring(name="a")
    one.minerals.append("lime")
    assert other.minerals == []
    assert Spring(name="a", minerals=["salt"]).minerals == ["salt"]


def test_a_value_may_extend_another_and_look_at_itself_once_made():
    assert HotSpring(name="a") == HotSpring(name="a", minerals=[], degrees=40) != Spring(name="a")
    with pytest.raises(ValueError, match="not hot"):
        HotSpring(name="a", degrees=10)
    with pytest.raises(ValueError, match="not hot"):
        dataclasses.replace(HotSpring(name="a"), degrees=10)


@pytest.mark.parametrize("made_again", [copy.copy, copy.deepcopy, lambda well: pickle.loads(pickle.dumps(well))])
def test_a_copied_value_is_the_same(made_again: Any):
    well = HotSpring(name="a", degrees=50)
    assert made_again(well) == well
    assert not hasattr(well, "__dict__")


def test_the_signature_shows_the_fields():
    assert str(inspect.signature(HotSpring)).startswith("(*, name, minerals=")
    assert list(inspect.signature(Nothing).parameters) == []


@pytest.mark.parametrize("name", ["a", "0", "al-ain", "a.b_c-d", "x" * 100])
def test_a_good_name_is_taken(name):
    assert reads(name=name).name == name


@pytest.mark.parametrize(
    "name", ["", "A", "-a", ".a", "..", "a/b", "a b", "a\n", "a\x00", "x" * 101, "ا", "a%2e", "a;b", "a?b"]
)
def test_a_bad_name_is_refused(name):
    with pytest.raises(ValidationError):
        reads(name=name)


@pytest.mark.parametrize(
    "fields",
    [
        {"depth": 0},
        {"depth": 501},
        {"depth": -1},
        {"depth": "10"},
        {"depth": 10.0},
        {"depth": True},
        {"depth": 10**40},
        {"depth": None},
        {"key": "a"},
        {"key": "abcde"},
        {"note": "x" * 2001},
        {"shares": []},
        {"shares": [1, 2, 3, 4]},
        {"shares": ["1"]},
        {"dug": "2026-11-15T09:30:00"},
        {"dug": 5},
        {"unknown": 1},
    ],
    ids=str,
)
def test_what_breaks_a_mark_or_a_type_is_refused(fields):
    with pytest.raises(ValidationError):
        reads(**fields)


def test_limits_are_included():
    assert reads(depth=1).depth == 1
    assert reads(depth=500).depth == 500
    assert reads(key="ab").key == "ab"
    assert reads(shares=[1, 2, 3]).shares == (1, 2, 3)


@given(
    st.builds(
        Well,
        name=st.from_regex(r"\A[a-z0-9][a-z0-9._-]{0,99}\Z"),
        depth=st.integers(1, 500),
        note=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50),
        dug=st.none() | st.integers(0, 4 * 10**15).map(Moment),
    )
)
def test_a_value_written_as_json_and_read_is_the_same(well):
    assert wells.validate_json(wells.dump_json(well)) == well


def test_the_marks_of_a_field_are_found():
    assert [type(mark) for mark in marks(Well, "key")] == [Text, Secret]
    assert [type(mark) for mark in marks(Well, "note")] == [Text, Personal]
    assert marks(Well, "dug") == ()


@pytest.mark.parametrize("text", ["0" * 31, "0" * 33, "G" * 32, "0" * 32 + "\n", "../" + "0" * 29])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(ValidationError):
        TypeAdapter(Id).validate_python(text)


def test_the_schema_tells_the_limits():
    properties = wells.json_schema()["properties"]
    assert properties["depth"] == {"default": 10, "maximum": 500, "minimum": 1, "title": "Depth", "type": "integer"}
    assert properties["name"]["maxLength"] == 100
