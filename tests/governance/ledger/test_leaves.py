"""What enters a leaf, and what never does."""

from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.base.ids import LeafId
from falaj.base.values import Message, Personal, Secret, value
from falaj.governance.ledger import store
from falaj.governance.ledger.leaves import LARGEST_RECORD, Leaf, commitment, decode, plain, redact
from tests.governance.ledger.conftest import PRINCIPAL, Invite, Ledger, Member, identity


class Colour(StrEnum):
    RED = "red"


@value
class Everything(Message):
    text: str
    number: float
    at: Moment
    colour: Colour
    raw: bytes
    parts: tuple[Any, ...]
    table: dict[str, Any]
    chosen: frozenset[str]
    people: tuple[Annotated[str, Personal()], ...]
    nickname: Annotated[str, Personal()] | None
    hidden: tuple[Annotated[str, Secret()], ...]


def everything(**changes):
    fields = {
        "text": "x",
        "number": 1.5,
        "at": Moment.parse("2026-11-15T09:00:00Z"),
        "colour": Colour.RED,
        "raw": b"bytes",
        "parts": (1, None, True),
        "table": {"k": (1,)},
        "chosen": frozenset({"b", "a"}),
        "people": ("Maryam",),
        "nickname": "Mimi",
        "hidden": ("s3cret",),
    }
    return Everything(**fields | changes)


def test_values_are_written_as_json_says_them():
    fields, _ = redact(everything())
    assert fields["at"] == "2026-11-15T09:00:00.000000Z"
    assert fields["colour"] == "red"
    assert fields["raw"] == {"size": 5}
    assert fields["parts"] == [1, None, True]
    assert fields["table"] == {"k": [1]}
    assert fields["chosen"] == ["a", "b"]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_json_has_not_are_written_as_text(number):
    fields, _ = redact(everything(number=number))
    assert fields["number"] == str(number)


def test_a_mark_inside_an_annotation_covers_the_whole_field():
    fields, commitments = redact(everything())
    assert set(fields["people"]) == set(fields["nickname"]) == {"commitment"}
    assert "hidden" not in fields
    assert [field for field, _ in commitments] == ["people", "nickname"]


def test_personal_values_nested_in_tuples_of_values_become_commitments():
    request = Invite(name="x", note="about Maryam", members=(Member(email="m@example.org", role="viewer"),))
    fields, commitments = redact(request)
    salts = dict(commitments)
    assert fields["members"] == [
        {"email": {"commitment": commitment(salts["members.0.email"], "m@example.org")}, "role": "viewer"}
    ]
    assert fields["note"] == {"commitment": commitment(salts["note"], "about Maryam")}


def test_two_commitments_to_one_value_differ():
    first, _ = redact(Invite(note="same"))
    second, _ = redact(Invite(note="same"))
    assert first["note"] != second["note"]


texts = st.text(min_size=6, alphabet=st.characters(codec="utf-8"))


@given(texts, texts)
def test_neither_personal_values_nor_secrets_are_in_the_bytes(personal, secret):
    leaf = leaf_of(Invite(note=f"<{personal}>", password=f"<{secret}>", members=(Member(email=f"<{personal}>", role="r"),)))
    written = str(decode(leaf.encoded()))
    assert f"<{personal}>" not in written
    assert f"<{secret}>" not in written
    assert b"password" not in leaf.encoded()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), json_values))
def test_a_record_read_back_has_the_same_bytes(facts):
    leaf = leaf_of(Invite(), facts=plain(facts))
    assert decode(leaf.encoded()).encoded() == leaf.encoded()


def test_a_huge_request_enters_as_its_digest():
    leaf = leaf_of(Invite(name="x" * 1_000_000))
    assert len(leaf.bounded()) < LARGEST_RECORD
    assert decode(leaf.bounded()).request["size"] > 1_000_000


@pytest.mark.parametrize("record", [b"", b"{}", b"[]", b"nonsense", b'{"inserted":5}'])
def test_what_is_no_leaf_is_not_read_as_one(record):
    with pytest.raises(ValueError):
        decode(record)


def test_the_record_in_the_database_holds_no_personal_value_and_the_salt_proves_it(ledger: Ledger):
    request = Invite(note="born in Al Ain", password="hunter2", members=(Member(email="m@example.org", role="viewer"),))
    [leaf] = ledger.record(request=request)
    record = bytes(ledger.sql("SELECT record FROM ledger_leaves")[0].record)
    assert not any(clear in record for clear in (b"Al Ain", b"hunter2", b"m@example.org"))
    salts = ledger.database.read(lambda work: store.salts_of(work, leaf))
    assert decode(record).request["note"] == {"commitment": commitment(salts["note"], "born in Al Ain")}


@pytest.mark.parametrize("whose", ["leaf", "principal", "subject"])
def test_erased_salts_are_gone_and_the_ledger_still_verifies(ledger: Ledger, whose):
    about = "d" * 32
    [leaf] = ledger.record(request=Invite(note="private"), facts={"principal": about})
    [other] = ledger.record(request=Invite(note="kept"), identity=identity("e" * 32))
    ledger.sequencer.step()
    which = {"leaf": {"leaf": leaf}, "principal": {"principal": PRINCIPAL}, "subject": {"principal": about}}[whose]
    assert ledger.database.write(lambda work: store.erase_salts(work, **which)) == 1
    assert ledger.database.read(lambda work: store.salts_of(work, leaf)) == {}
    assert ledger.database.read(lambda work: store.salts_of(work, other)) != {}
    assert ledger.verify().ok


def leaf_of(request, facts=None):
    fields, _ = redact(request)
    return Leaf(
        id=LeafId("0" * 32),
        inserted=Moment(0),
        operation="people.invite",
        record="change",
        outcome="done",
        principal="",
        token="",
        zone="",
        project="",
        request_id="",
        request=fields,
        facts=facts or {},
        rule="",
    )
