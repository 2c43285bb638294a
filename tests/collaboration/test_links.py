"""Share links, on both databases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.clock import DAY, SECOND
from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.collaboration.links import page_below
from tests.collaboration.team import Team

PAGE = "/projects/alpha/experiments/3?order=metrics.loss&filter=params.depth%20%3E%203"


def test_a_link_leads_everybody_who_may_read_the_project_to_its_page(team: Team) -> None:
    made = team.amal.share(PAGE, title="The two best runs")
    assert made.address == f"/projects/alpha/links/{made.id}"
    assert team.omar.open(made.id) == made
    assert (made.path, made.title, made.made_by.name, made.expires) == (PAGE, "The two best runs", "amal", None)


def test_a_link_opens_nothing_for_those_who_may_not_read_the_project(team: Team) -> None:
    made = team.amal.share(PAGE)
    with pytest.raises(NotFound):
        team.mallory.open(made.id)
    with pytest.raises(NotFound, match="leads nowhere"):
        team.mallory.open(made.id, project="beta")
    with pytest.raises(NotFound):
        team.mallory.share(PAGE)
    with pytest.raises(Invalid, match="page of this project"):
        team.mallory.share(PAGE, project="beta")


def test_a_link_expires(team: Team) -> None:
    made = team.owner.share(PAGE, days=2)
    team.clock.forward(2 * DAY - SECOND)
    assert team.owner.open(made.id).id == made.id
    assert len(team.owner.shared().items) == 1
    team.clock.forward(SECOND)
    with pytest.raises(NotFound, match="leads nowhere"):
        team.owner.open(made.id)
    assert team.owner.shared().items == ()


def test_its_maker_revokes_a_link_and_nobody_else_does(team: Team) -> None:
    made = team.amal.share(PAGE)
    with pytest.raises(Forbidden, match="Only who made"):
        team.dina.revoke(made.id)
    with pytest.raises(NotFound):
        team.mallory.revoke(made.id, project="beta")
    team.amal.revoke(made.id)
    for somebody in (team.amal, team.omar):
        with pytest.raises(NotFound, match="leads nowhere"):
            somebody.open(made.id)


def test_a_link_that_never_was_expired_or_was_revoked_is_refused_in_the_same_words(team: Team) -> None:
    revoked, expired = team.owner.share(PAGE), team.owner.share(PAGE, days=1)
    team.owner.revoke(revoked.id)
    team.clock.forward(DAY)
    refusals = set()
    for id in (revoked.id, expired.id, "0" * 32):
        with pytest.raises(NotFound) as refused:
            team.owner.open(id)
        refusals.add(str(refused.value))
    assert len(refusals) == 1


def test_everybody_lists_their_own_links_newest_first(team: Team) -> None:
    made = [team.amal.share(f"/projects/alpha/runs/{number}") for number in range(3)]
    team.badr.share(PAGE)
    page = team.amal.shared(limit=2)
    rest = team.amal.shared(limit=2, cursor=page.next)
    assert (*page.items, *rest.items) == tuple(reversed(made))


@pytest.mark.parametrize(
    "path",
    [
        "/projects/alpha",
        "/projects/alpha/runs/" + "a" * 32,
        "/projects/alpha/runs?x=1&y=%2F..%2F",
        "/projects/alpha/a.b/...?q=/projects/beta",
    ],
)
def test_a_page_of_the_project_is_taken(path: str) -> None:
    assert "/projects/alpha" + page_below(path, "alpha") == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/projects/alphabet/runs",
        "/projects/beta/runs",
        "projects/alpha/runs",
        "https://evil.example/projects/alpha/runs",
        "//evil.example/projects/alpha",
        "/projects/alpha/../beta/runs",
        "/projects/alpha/./runs",
        "/projects/alpha/%2e%2e/beta",
        "/projects/alpha/%252E%252e/beta",
        "/projects/alpha/..%2fbeta",
        "/projects/alpha/a%5cb",
        "/projects/alpha//evil",
        "/projects/alpha\\..\\beta",
        "/projects/alpha/runs\nSet-Cookie: x",
        "/projects/alpha/runs?a=\\b c",
        "/projects/alpha/runs#javascript:x",
        "/projects/alpha/rüns",
        "/projects/alpha/<script>",
        "/projects/alpha/links/" + "0" * 32,
        "/projects/alpha/runs/",
        "javascript:alert(1)",
    ],
)
def test_what_is_no_page_of_the_project_is_refused(path: str) -> None:
    with pytest.raises(Invalid, match="page of this project"):
        page_below(path, "alpha")


@given(tail=st.text(alphabet="ab/.%2e5c\\?#:@ \n", max_size=20))
def test_no_link_leaves_its_project(tail: str) -> None:
    try:
        page = page_below("/projects/alpha" + tail, "alpha")
    except Invalid:
        return
    path = page.partition("?")[0]
    assert path == "" or path.startswith("/")
    assert not {".", ".."} & set(path.lower().replace("%2e", ".").split("/"))
    assert page.isascii()
    assert page.isprintable()
