"""Variants of a version: listed page by page, and which one a name means."""

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from sqlalchemy import update

from falaj.app.variants import OptimisedVariants
from falaj.base.errors import Invalid
from falaj.base.ids import new_id
from falaj.cli.commands import variants as commands
from falaj.cli.layout import Layout
from falaj.cli.variant_looks import certificate_shown
from falaj.optimisation.deployable import Deployable
from falaj.optimisation.names import meant
from falaj.optimisation.operations.optimisations import SHOW_OPTIMISATION, Limits, OneOptimisation
from falaj.optimisation.operations.variants import (
    LIST_VARIANTS,
    SHOW_CERTIFICATE,
    ListVariants,
    OneVariant,
    Variant,
    Variants,
)
from falaj.optimisation.store import optimisations as searches
from falaj.optimisation.store import variants as store
from falaj.optimisation.store.tables import optimisations
from falaj.registry.operations.models import CREATE_MODEL, CreateModel
from falaj.registry.views import required_version
from falaj.serving.variants import best_of, rungs_of
from falaj.web.optimisation import listing
from tests.web import optimised, tracked
from tests.web.conftest import Site, running_site

BROKEN = {"runtime": "onnx", "file": "model.onnx", "settings": {"threads": "8"}, "notes": []}
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


def test_one_variant_is_the_best_of_a_version_that_was_searched_twice_wherever_a_page_ends(site: Site, version: Any) -> None:
    best = [one for page in pages(site, 2) for one in page.items if one.best]
    assert [one.name for one in best] == ["half"]
    for search in {one.optimisation for one in pages(site, 1000)[0].items}:  # and each search has its own
        shown = site.call(SHOW_OPTIMISATION, OneOptimisation(project="fraud", optimisation=search))
        assert [one.name for one in shown.variants if one.best] == ["half"]


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


# Names


def search(site: Site, version: Any, max_drop: float, times: float) -> str:
    """A search that made one variant, `int8`, certified to lose no more than this; its id."""
    planned = optimised.plan(site, version, limits=Limits(max_drop=max_drop))
    of = optimised.measures(times)
    made = optimised.candidate(site, planned, "int8", state="made", of=of, file=f"{planned.id}".encode())
    optimised.certify(site, planned, "int8", of, optimised.group("", 10_000, 2))
    return made


@pytest.fixture
def searched(site: Site) -> Any:
    """A model of its own, and its data; the searches are to come."""
    name = new_id(site.platform.clock.now())
    site.call(CREATE_MODEL, CreateModel(project="fraud", model=name))
    return tracked.register(site, tracked.run(site, 0, "trained"), name)


def deployable(site: Site, version: Any) -> list[Any]:
    def look(context: Any) -> list[Any]:
        found = required_version(context, version.model, version.version)
        return list(OptimisedVariants(Deployable(site.platform.signers)).certified(context, found))

    return optimised.within(site, look)


def shown(site: Site, version: Any) -> Any:
    asked = OneVariant(project="fraud", model=version.model, version=1, variant="int8")
    return site.call(SHOW_CERTIFICATE, asked).variant.id


def test_a_later_search_that_allows_more_does_not_hide_what_was_shown_more_closely(
    site: Site, version: Any, searched: Any
) -> None:
    close = search(site, searched, 0.005, 2.0)
    search(site, searched, 0.2, 9.0)
    (only,) = deployable(site, searched)
    assert (only.id, only.strict) == (close, True)
    assert best_of([only]) == only
    assert rungs_of([only], 1.0) == (only,)
    assert shown(site, searched) == close
    listed = site.call(LIST_VARIANTS, ListVariants(project="fraud", model=searched.model)).items
    assert [one.max_drop for one in listed] == [0.2, 0.005]
    named = meant(listed)
    assert named is not None
    assert named.id == close


def test_of_those_that_are_as_close_a_name_means_the_newest(site: Site, version: Any, searched: Any) -> None:
    search(site, searched, 0.2, 9.0)
    loose = search(site, searched, 0.3, 8.0)
    assert [one.id for one in deployable(site, searched)] == [loose]
    assert shown(site, searched) == loose
    search(site, searched, 0.005, 3.0)
    close = search(site, searched, 0.01, 2.0)
    assert [one.id for one in deployable(site, searched)] == [close]
    assert shown(site, searched) == close


def test_a_close_one_whose_certificate_holds_no_more_hides_nothing(site: Site, version: Any, searched: Any) -> None:
    close, loose = search(site, searched, 0.005, 2.0), search(site, searched, 0.2, 9.0)
    optimised.within(site, lambda context: store.change(context.work, close, made=json.dumps(BROKEN)))
    assert [one.id for one in deployable(site, searched)] == [loose]


def test_what_was_refused_on_the_same_rows_makes_it_harder_for_all_that_follow_and_certificates_say_so(
    site: Site, version: Any, searched: Any
) -> None:
    """Whatever search they are of; what was certified costs nothing."""

    def judged(rows: int, lost: int = 0) -> Any:
        planned = optimised.plan(site, searched)
        of = optimised.measures(2.0)
        made = optimised.candidate(site, planned, "int8", state="made", of=of, file=planned.id.encode())
        optimised.certify(site, planned, "int8", of, optimised.group("", rows, lost))
        asked = OneVariant(project="fraud", model=searched.model, version=1, variant=made)
        return planned.refused_before, site.call(SHOW_CERTIFICATE, asked)

    def counted(found: Any) -> tuple[Any, ...]:
        return tuple(found.document[name] for name in ("judged_before", "refused_before", "sure"))

    before, first = judged(900)
    assert (first.fit, before, *counted(first)) == (True, 0, 0, 0, "0.98875")
    assert not judged(900, 100)[1].fit
    before, second = judged(900)
    assert (second.fit, before, *counted(second)) == (True, 1, 2, 1, "0.98875")  # four refusals cost the same
    assert not any(judged(900, 100)[1].fit for _ in range(3))
    before, third = judged(900)
    assert (third.fit, before, *counted(third)) == (False, 4, 6, 4, "0.9975")
    assert "takes 1,199 or more" in third.reasons[0]
    before, last = judged(1500)
    assert (last.fit, before, *counted(last)) == (True, 5, 7, 5, "0.999167")
    assert counted(judged(1500)[1]) == (8, 5, "0.999167")


FROM: Final = (
    "scikit-learn Pipeline (model.pkl), as its own code says; on 40 real rows the two differ by 2e-07 at most, 0.001 is allowed"
)


def test_a_certificate_says_that_the_original_was_converted_and_by_whose_word_it_is_as_before(
    site: Site, version: Any, searched: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = optimised.plan(site, searched)

    def convert(context: Any) -> None:
        row = searches.find(context.work, context.required_project.id, planned.id)
        assert row is not None
        pinned = json.dumps(json.loads(row.pinned) | {"converted": FROM})
        context.work.execute(update(optimisations).where(optimisations.c.id == planned.id).values(pinned=pinned))

    optimised.within(site, convert)
    of = optimised.measures(2.0)
    made = optimised.candidate(site, planned, "int8", state="made", of=of, file=b"of a pickle")
    optimised.certify(site, planned, "int8", of, optimised.group("", 10_000, 2))
    as_it_was = search(site, searched, 0.005, 2.0)
    for variant, told in ((made, FROM), (as_it_was, "")):
        asked = OneVariant(project="fraud", model=searched.model, version=1, variant=variant)
        found = site.call(SHOW_CERTIFICATE, asked)
        assert found.document["model"]["converted"] == told
        certificate_shown(Layout(), found)
    said = " ".join(capsys.readouterr().out.split())
    assert "converted from scikit-learn Pipeline (model.pkl), as its own code says; on 40 real rows" in said
    assert "as it was registered" in said
