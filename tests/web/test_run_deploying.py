"""Deploy as a button on a run's page: a version and an endpoint by one press, for whoever may do both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.roles import Role
from falaj.registry.operations import versions
from falaj.serving.operations import endpoints
from falaj.tracking.operations import models as logged
from falaj.tracking.operations import runs
from tests.web import served, tracked
from tests.web.conftest import Form, Site, running_site, sign_in, until
from tests.web.test_browser import complaints, show
from tests.web.test_experiments_browser import text_of

MODEL, PICKLED = ((tracked.MODELS / f"{kind}.MLmodel").read_bytes() for kind in ("lightgbm", "sklearn"))
WEIGHTS = (tracked.MODELS / "model.lgb").read_bytes()


@pytest.fixture
def fraud(tmp_path: Path) -> Iterator[Site]:
    for site in running_site(tmp_path):
        site.project("fraud")
        yield site


def page_of(run: str) -> str:
    return f"/projects/fraud/runs/{run}"


def get(site: Site, run: str, token: str | None = None) -> str:
    with site.client(token or site.session()) as client:
        return client.get(page_of(run)).text


def press(site: Site, run: str, token: str, **fields: str) -> Any:
    with site.client(token) as client:
        form = Form(client.get(page_of(run)).text, f"{page_of(run)}/-/endpoint.deploy")
        answer = form.send(client, **fields)
        return client.get(answer.headers["location"]) if answer.status_code == 303 else answer


def registered(site: Site) -> list[tuple[str, int, str]]:
    found = site.call(versions.SEARCH_VERSIONS, versions.SearchVersions(project="fraud")).items
    return [(one.model, one.version, one.run) for one in found]


def run_with(site: Site, files: dict[str, bytes], name: str = "trained", experiment: int = 0) -> str:
    run = tracked.run(site, experiment, name)
    for file, content in files.items():
        tracked.put(site, run, file, content)
    return run


def test_one_press_registers_the_model_of_a_run_and_deploys_it(fraud: Site) -> None:
    maryam = fraud.person("maryam", roles={"fraud": Role.ENGINEER})
    number = tracked.experiment(fraud, "Card fraud")
    run = run_with(fraud, {"model/MLmodel": MODEL, "model/model.lgb": WEIGHTS, "plot.txt": b"x"}, experiment=number)
    page = get(fraud, run, maryam)
    assert 'value="Card fraud"' in page, "proposed from the experiment"
    assert 'value="card-fraud"' in page
    endpoint = press(fraud, run, maryam, model="Card fraud", endpoint="card-fraud")
    assert endpoint.url.path == "/projects/fraud/endpoints/card-fraud"
    assert "Deployed. Planes load it now" in endpoint.text
    assert "curl" in endpoint.text
    assert registered(fraud) == [("Card fraud", 1, run)]
    fraud.platform.sequencer.step(close_all_windows=True)
    for operation in ("model.create", "version.create", "endpoint.deploy"):
        [leaf] = fraud.call(LOG, ReadLog(operation=operation)).items
        assert leaf.outcome == "done"
    assert press(fraud, run, maryam, model="Card fraud", endpoint="again").url.path.endswith("/endpoints/again")
    assert registered(fraud) == [("Card fraud", 1, run)], "the same files are the same version"
    tracked.put(fraud, run, "model/notes.txt", b"one file more")
    press(fraud, run, maryam, model="Card fraud", endpoint="again")
    assert len(registered(fraud)) == 2


def test_a_logged_model_is_deployed_under_its_name(fraud: Site) -> None:
    run = tracked.run(fraud, 0, "trained")
    made = fraud.call(
        logged.CREATE_LOGGED_MODEL, logged.CreateLoggedModel(project="fraud", experiment=0, name="forest", run=run)
    )
    outputs = (runs.ModelOutput(model=made.id),)
    fraud.call(runs.LOG_OUTPUTS, runs.LogOutputs(project="fraud", run=run, models=outputs))
    tracked.put(fraud, made.id, "MLmodel", MODEL)
    tracked.put(fraud, made.id, "model.lgb", WEIGHTS)
    assert "endpoint.deploy" not in get(fraud, run), "it is not ready"
    fraud.call(logged.FINISH_LOGGED_MODEL, logged.FinishLoggedModel(project="fraud", model=made.id, status="READY"))
    assert 'value="forest"' in get(fraud, run)
    press(fraud, run, fraud.session(), model="forest", endpoint="forest")
    assert registered(fraud) == [("forest", 1, run)]
    assert served.show(fraud, "forest").arms[0].share == 10_000


def test_who_may_not_deploy_sees_no_button_and_is_refused(fraud: Site) -> None:
    run = run_with(fraud, {"model/MLmodel": MODEL, "model/model.lgb": WEIGHTS})
    scientist = fraud.person("sami", roles={"fraud": Role.SCIENTIST})
    viewer = fraud.person("omar", roles={"fraud": Role.VIEWER})
    for token in (scientist, viewer):
        page = get(fraud, run, token)
        assert "endpoint.deploy" not in page
        assert 'href="#deploy"' not in page
    with fraud.client(scientist) as client, fraud.client() as stranger:
        form = Form(client.get(page_of(run)).text, f"{page_of(run)}/-/run.update")
        form.action = f"{page_of(run)}/-/endpoint.deploy"
        assert form.send(client, source=f"{run} model", model="sly", endpoint="sly").status_code == 403
        assert form.send(stranger, source=f"{run} model", model="sly", endpoint="sly").status_code == 303, "to sign in"
    assert fraud.call(endpoints.LIST_ENDPOINTS, endpoints.ListEndpoints(project="fraud")).items == ()


def test_what_cannot_be_served_says_why(fraud: Site) -> None:
    run = run_with(fraud, {"net.onnx": b"not a network"})
    answer = press(fraud, run, fraud.session(), model="net", endpoint="net")
    assert answer.status_code == 409
    assert "cannot be served" in answer.text
    page = get(fraud, run)
    assert "net</bdi> v1</a> cannot be served." in page
    assert "&#39;net.onnx&#39; looks like an ONNX model and cannot be read as one" in page
    assert "/-/endpoint.deploy" not in page
    nothing = run_with(fraud, {"plot.png": tracked.png()})
    assert 'id="deploy"' not in get(fraud, nothing)


def test_what_was_mistyped_is_told_beside_its_field_and_makes_nothing(fraud: Site) -> None:
    files = {f"{folder}/{name}": content for folder in "ab" for name, content in (("MLmodel", MODEL), ("model.lgb", WEIGHTS))}
    run = run_with(fraud, files)
    session = fraud.session()
    page = press(fraud, run, session, source=f"{run} b", model="of/two", endpoint="two")
    assert page.status_code == 400
    assert 'value="of/two"' in page.text
    assert f'value="{run} b" selected' in page.text
    assert registered(fraud) == []
    assert press(fraud, run, session, source=f"{run} b", model="two", endpoint="Big Name").status_code == 400
    press(fraud, run, session, source=f"{run} b", model="two", endpoint="two")
    assert registered(fraud) == [("two", 1, run)]


def test_from_a_run_to_an_endpoint_by_one_button(fraud: Site, browser: Chrome) -> None:
    run = run_with(fraud, {"late/MLmodel": MODEL, "late/model.lgb": WEIGHTS})
    sign_in(browser, fraud)
    show(browser, f"{fraud.url}{page_of(run)}")
    browser.find_element(By.CSS_SELECTOR, "a.main-action[href='#deploy']").click()
    form = browser.find_element(By.CSS_SELECTOR, "form[action$='endpoint.deploy']")
    assert form.find_element(By.ID, "deploy-model").get_attribute("value") == "late"
    form.find_element(By.CSS_SELECTOR, "button.main-action").click()
    until(browser, lambda driver: driver.current_url.startswith(f"{fraud.url}/projects/fraud/endpoints/late"))
    assert "/v2/endpoints/late/predict" in text_of(browser, "main")
    assert complaints(browser) == []
