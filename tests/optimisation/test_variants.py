"""Variants of a version: listed page by page, and which one a name means."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from falaj.base.errors import Invalid
from falaj.cli.commands import variants as commands
from falaj.optimisation.operations.variants import LIST_VARIANTS, ListVariants, Variant, Variants
from falaj.web.optimisation import listing
from tests.web import optimised
from tests.web.conftest import Site, running_site

NAMES = ("int8", "fold", "half", "prune", "distil")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    for site in running_site(tmp_path_factory.mktemp("variants")):
        site.project("fraud", "Card fraud")
        yield site


@pytest.fixture(scope="module")
def version(site: Site) -> Any:
    """Searched twice, each time for five candidates, of which the third is the fastest."""
    found = optimised.register(site)
    for _ in range(2):
        planned = optimised.plan(site, found)
        for number, name in enumerate(NAMES):
            of = optimised.measures(3.0 if number == 2 else 1.0 + number / 10)
            optimised.candidate(site, planned, name, state="made", of=of, file=f"{planned.id} {name}".encode())
            optimised.certify(site, planned, name, of, optimised.group("", 10_000, 2))
    return found


def pages(site: Site, limit: int, **more: Any) -> list[Variants]:
    asked: dict[str, Any] = {"project": "fraud", "model": optimised.MODEL, "limit": limit, **more}
    found = [site.call(LIST_VARIANTS, ListVariants(**asked))]
    while found[-1].next:
        found.append(site.call(LIST_VARIANTS, ListVariants(**asked, cursor=found[-1].next)))
    return found


@pytest.mark.parametrize("of", [{}, {"version": 1}])
@pytest.mark.parametrize("limit", [1, 3, 5, 10])
def test_all_are_listed_page_by_page_the_newest_search_first(site: Site, version: Any, limit: int, of: Any) -> None:
    whole = pages(site, 1000, **of)
    assert len(whole) == 1
    assert [one.name for one in whole[0].items] == [*NAMES, *NAMES]
    assert whole[0].items[0].optimisation > whole[0].items[-1].optimisation
    found = pages(site, limit, **of)
    assert [len(page.items) for page in found] == [limit] * (10 // limit) + ([10 % limit] if 10 % limit else [])
    assert [one for page in found for one in page.items] == list(whole[0].items)


def test_what_is_best_is_said_of_a_whole_search_wherever_a_page_ends(site: Site, version: Any) -> None:
    best = [one.name for page in pages(site, 2) for one in page.items if one.best]
    assert best == ["half", "half"]


def test_a_cursor_of_another_listing_is_refused(site: Site, version: Any) -> None:
    with pytest.raises(Invalid, match="cursor"):
        site.call(LIST_VARIANTS, ListVariants(project="fraud", model=optimised.MODEL, cursor="WyJ4Il0"))


class Terminal:
    def __init__(self, site: Site) -> None:
        self.call, self.shown = site.call, list[Any]()

    def show(self, result: Any, render: Any) -> None:
        self.shown.append(result)


def test_the_command_and_the_console_see_all_pages(site: Site, version: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "AT_ONCE", 3)
    monkeypatch.setattr(listing, "MOST_AT_ONCE", 3)
    terminal: Any = Terminal(site)
    commands.variants(terminal, optimised.MODEL, "1", "fraud")
    every: list[Variant] = list(terminal.shown[0].items)
    assert [one.name for one in every] == [*NAMES, *NAMES]
    with site.client(site.session()) as client:
        page = client.get(f"/projects/fraud/versions/{version.id}").text
        last = urlencode({"model": optimised.MODEL, "version": 1, "variants": f"{every[0].id},{every[-1].id}"})
        compared = client.get(f"/projects/fraud/variants?{last}").text
    assert all(one.id in page for one in every)
    assert "does not exist" not in compared
