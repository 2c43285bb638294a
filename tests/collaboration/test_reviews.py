"""Reviews, on both databases."""

import threading

import pytest

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.governance.roles import Role
from tests.collaboration.team import Team, run_id


def test_a_member_is_asked_told_and_answers(team: Team) -> None:
    asked = team.amal.ask("badr", team.run, note="Is the split right?")
    assert (asked.state, asked.asked.name, asked.asked_by.name, asked.answered) == ("open", "badr", "amal", None)
    [notice] = team.badr.inbox().items
    assert (notice.kind, notice.about, notice.excerpt) == ("review-request", asked.id, "Is the split right?")

    answered = team.badr.answer(asked.id, "changes", "Shuffle first.")
    assert (answered.state, answered.answer) == ("changes", "Shuffle first.")
    assert answered.answered is not None
    [notice] = team.amal.inbox().items
    assert (notice.kind, notice.by.name, notice.excerpt) == ("review-answer", "badr", "Shuffle first.")
    assert team.badr.inbox().unread == 0  # who has answered has read


def test_a_version_is_reviewed_too(team: Team) -> None:
    version = team.make("version", run_id("v1"), "fraud v1")
    assert team.amal.ask("badr", version, kind="version").thing.label == "fraud v1"


def test_reviews_are_listed_by_whose_they_are_and_by_thing(team: Team) -> None:
    other = team.make("run", run_id("other"), "other")
    first = team.amal.ask("badr", team.run)
    second = team.dina.ask("badr", other)
    third = team.badr.ask("amal", other)
    team.badr.answer(second.id, "approve")

    def listed(reviews: object) -> list[str]:
        return [review.id for review in reviews.items]  # type: ignore[attr-defined]

    assert listed(team.omar.asked()) == [third.id, second.id, first.id]
    assert listed(team.badr.asked(whose="mine-to-answer")) == [second.id, first.id]
    assert listed(team.badr.asked(whose="mine-to-answer", state="open")) == [first.id]
    assert listed(team.badr.asked(whose="mine-asked")) == [third.id]
    assert listed(team.omar.asked(kind="run", thing=other)) == [third.id, second.id]
    page = team.omar.asked(limit=2)
    assert listed(page) + listed(team.omar.asked(limit=2, cursor=page.next)) == [third.id, second.id, first.id]
    with pytest.raises(Invalid, match="together"):
        team.omar.asked(thing=other)


def test_only_who_was_asked_answers_and_only_who_asked_withdraws(team: Team) -> None:
    asked = team.amal.ask("badr", team.run)
    for somebody in (team.amal, team.dina):
        with pytest.raises(Forbidden, match="Only who was asked"):
            somebody.answer(asked.id, "approve")
    with pytest.raises(Forbidden, match="Only who asked"):
        team.badr.withdraw(asked.id)
    assert team.amal.asked().items[0].state == "open"


def test_a_withdrawn_review_is_no_longer_there_to_answer(team: Team) -> None:
    asked = team.amal.ask("badr", team.run)
    assert team.amal.withdraw(asked.id).state == "withdrawn"
    assert team.badr.inbox().items == ()
    with pytest.raises(Conflict, match="closed"):
        team.badr.answer(asked.id, "approve")


def test_a_review_is_answered_once(team: Team) -> None:
    asked = team.amal.ask("badr", team.run)
    team.badr.answer(asked.id, "approve")
    with pytest.raises(Conflict, match="closed"):
        team.badr.answer(asked.id, "changes")
    with pytest.raises(Conflict, match="closed"):
        team.amal.withdraw(asked.id)
    assert team.amal.ask("badr", team.run).id != asked.id  # and may be asked for again


def test_the_same_is_not_asked_twice_while_it_is_open(team: Team) -> None:
    team.amal.ask("badr", team.run)
    with pytest.raises(Conflict, match="open review"):
        team.dina.ask("badr", team.run)
    assert team.dina.ask("amal", team.run).state == "open"


def test_of_two_who_ask_the_same_at_once_one_does(team: Team) -> None:
    together, done, refused = threading.Barrier(2), [], []

    def ask(person: object) -> None:
        together.wait()
        try:
            done.append(person.ask("badr", team.run))  # type: ignore[attr-defined]
        except Conflict as conflict:
            refused.append(conflict)

    threads = [threading.Thread(target=ask, args=(person,)) for person in (team.amal, team.dina)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(done), len(refused)) == (1, 1)
    assert len(team.badr.inbox().items) == 1


def test_nobody_reviews_for_oneself(team: Team) -> None:
    with pytest.raises(Invalid, match="somebody else"):
        team.amal.ask("amal", team.run)


def test_a_stranger_and_nobody_cannot_be_asked_and_are_refused_in_the_same_words(team: Team) -> None:
    refusals = []
    for name in ("mallory", "nobody", team.mallory.id):
        with pytest.raises(NotFound, match="no member of this project") as refused:
            team.amal.ask(name, team.run)
        refusals.append(str(refused.value).replace(name, "NAME"))
    assert len(set(refusals)) == 1


def test_a_person_who_left_answers_nothing_any_more(team: Team) -> None:
    asked = team.amal.ask("badr", team.run)
    team.leave("badr", Role.ENGINEER)
    with pytest.raises(NotFound):
        team.badr.answer(asked.id, "approve")
    with pytest.raises(NotFound):
        team.badr.inbox()


def test_somebody_of_another_project_sees_and_touches_no_review(team: Team) -> None:
    asked = team.amal.ask("badr", team.run)
    for attempt in (
        lambda: team.mallory.asked(),
        lambda: team.mallory.ask("badr", team.run),
        lambda: team.mallory.ask("badr", team.run, project="beta"),
        lambda: team.mallory.answer(asked.id, "approve", project="beta"),
        lambda: team.mallory.withdraw(asked.id, project="beta"),
    ):
        with pytest.raises(NotFound):
            attempt()
    assert team.mallory.asked(project="beta").items == ()
    assert team.mallory.asked(project="beta", kind="run", thing=team.run).items == ()


def test_the_ledger_knows_who_was_asked_by_id_alone(team: Team) -> None:
    asked = team.amal.ask("badr", team.run, note="please")
    [leaf] = team.leaves("review.request")
    assert leaf.facts == {"review": asked.id, "principal": team.badr.id}
    assert set(leaf.request["whom"]) == set(leaf.request["note"]) == {"commitment"}
    team.erase("badr")
    assert team.amal.asked().items[0].asked.name == ""
