"""Whom a text mentions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.collaboration.mentions import MOST_NAMES, cut, put_back

MEMBERS = {"amal": "1", "badr": "2", "dina.k": "3", "x_": "4"}
NAMES = {id: name for name, id in MEMBERS.items()}


def mentioned(text: str) -> list[str]:
    return [NAMES[mention.principal] for mention in cut(text, MEMBERS.get).mentions]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@amal look", ["amal"]),
        ("look, @badr.", ["badr"]),
        ("look, @badr... (and @amal)", ["badr", "amal"]),
        ("@dina.k, @dina.k.", ["dina.k", "dina.k"]),
        ("@Badr and @AMAL!", ["badr", "amal"]),
        ("@x_ ends like punctuation", ["x_"]),
        ("one\n@amal\n", ["amal"]),
        ("mail badr@amal.org, see //@amal, not @@badr", []),
        ("@nobody, @amalia, @ amal, @", []),
        ("@property\ndef f(): ...", []),
        ("ä@amal", []),
    ],
)
def test_a_mention_is_a_members_name_that_stands_by_itself(text: str, names: list[str]) -> None:
    assert mentioned(text) == names


def test_a_text_without_its_mentions_holds_no_name() -> None:
    spoken = cut("Thanks @amal, ask @badr.", MEMBERS.get)
    assert spoken.text == "Thanks , ask ."
    assert put_back(spoken.text, spoken.mentions, NAMES) == "Thanks @amal, ask @badr."
    assert put_back(spoken.text, spoken.mentions, {"1": "amal", "2": ""}) == "Thanks @amal, ask @erased."


PIECES = st.lists(st.sampled_from(["@", "amal", "badr", "dina.k", ".", " ", "-", "ä", "\n", "/", "@amal", "x_"]), max_size=30)


@given(text=PIECES.map("".join) | st.text())
def test_putting_the_mentions_back_gives_the_text_again(text: str) -> None:
    spoken = cut(text, lambda name: MEMBERS.get(name) if name in text else None)
    assert put_back(spoken.text, spoken.mentions, NAMES) == text
    positions = [mention.position for mention in spoken.mentions]
    assert positions == sorted(set(positions))


def test_only_so_many_names_are_looked_up_for_one_text() -> None:
    asked: list[str] = []

    def find(name: str) -> str | None:
        asked.append(name)
        return None

    cut(" ".join(f"@n{number}" for number in range(1000)), find)
    assert len(asked) == MOST_NAMES
