"""The pages of A/B tests: what a manager reads first, what it rests on, and ending one."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from falaj.governance.roles import Role
from falaj.monitoring.operations.abtests import Guardrail
from tests.web.abtested import Contested
from tests.web.conftest import Form, Site, running_site


@pytest.fixture
def fraud(tmp_path: Path) -> Iterator[Site]:
    for site in running_site(tmp_path):
        site.project("fraud")
        yield site


def get(site: Site, path: str, token: str | None = None) -> httpx.Response:
    with site.client(token or site.session()) as client:
        return client.get(path)


def test_a_project_without_tests_says_how_to_begin_one(fraud: Site) -> None:
    page = get(fraud, "/projects/fraud/abtests").text
    assert "None yet" in page
    assert "falaj abtest create ENDPOINT REVISION" in page


def test_the_report_says_the_verdict_first_and_shows_what_it_rests_on(fraud: Site) -> None:
    test = Contested(fraud)
    made = test.begin(least_effect=0.05, on_win="promote", guardrails=(Guardrail(of="errors", worst=0.01),))
    address = f"/projects/fraud/abtests/{made.id}"
    before = get(fraud, address).text
    assert "Nothing to draw yet" in before
    assert before.count("nothing known yet") == 2  # whether units fit, and whether the guardrail holds
    for _ in range(3):
        test.served(1, 50, 100)
        test.served(2, 60, 100)
    test.step()
    going = get(fraud, address).text
    assert 'class="courses"' in going
    assert "courses-zero" in going
    assert "Nothing is decided after" in going
    assert "The same in numbers" in going
    for _ in range(4):
        test.served(1, 40, 100)
        test.served(2, 90, 100)
    test.step()
    after = get(fraud, address).text
    assert test.show().state == "won"
    assert "Revision 2 wins:" in after
    assert after.index("Revision 2 wins:") < after.index("How it went") < after.index("Guardrails")
    assert "Revision 2 was promoted: it answers everything." in after
    assert "the platform itself" in after
    assert "<dd>less than two minutes</dd>" in after
    assert "by the test&#39;s estimate" in after
    assert "calls with errors" in after
    listed = get(fraud, "/projects/fraud/abtests").text
    assert address in listed
    assert "a winner" in listed
    assert get(fraud, "/projects/fraud/abtests?endpoint=other").text.count(address) == 0


def test_units_that_do_not_fit_are_told_on_the_page(fraud: Site) -> None:
    test = Contested(fraud)
    made = test.begin()
    for _ in range(3):
        test.served(2, 100, 200)
    test.step()
    page = get(fraud, f"/projects/fraud/abtests/{made.id}").text
    assert "The units do not fit the shares." in page
    assert "units do not fit" in page


def test_who_may_deploy_stops_a_test_from_its_page_and_readers_have_no_button(fraud: Site) -> None:
    test = Contested(fraud)
    made = test.begin()
    address = f"/projects/fraud/abtests/{made.id}"
    reader = fraud.person("reader", roles={"fraud": Role.VIEWER})
    assert "/-/abtest.stop" not in get(fraud, address, reader).text
    with fraud.client(fraud.session()) as client:
        page = client.get(address).text
        answer = Form(page, f"{address}/-/abtest.stop").send(client)
        assert answer.status_code in (302, 303), answer.text
        stopped = client.get(address).text
    assert "It was stopped after" in stopped
    assert "The split is back to what it was before the test." in stopped
    assert test.show().state == "stopped"


def test_a_test_of_another_project_is_not_found(fraud: Site) -> None:
    made = Contested(fraud).begin()
    fraud.project("other")
    outsider = fraud.person("outsider", roles={"other": Role.ADMIN})
    assert get(fraud, f"/projects/other/abtests/{made.id}", outsider).status_code == 404
    assert get(fraud, f"/projects/fraud/abtests/{made.id}", outsider).status_code in (403, 404)
