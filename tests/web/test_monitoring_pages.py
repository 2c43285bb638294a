"""The pages of monitoring: what is well and what is not, who is told, who may act on it, and who may not even look."""

import html
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from falaj.governance.ledger.operations import LOG, ReadLog
from falaj.governance.policies.operations import PUT_POLICY, PutPolicy
from falaj.governance.roles import Role
from falaj.monitoring.operations import alerts
from falaj.monitoring.operations.words import Act, Objective, Told
from tests.web import monitored, served, stored
from tests.web.conftest import Form, Site, running_site
from tests.web.monitored import drift, kinds, normal

NASTY = "<script>alert(1)</script>'\"&{{7*7}} ünï"
HEALTH = "/projects/fraud/monitors"
PAGE = "/projects/fraud/endpoints/scores/monitor"
ALERTS = "/projects/fraud/alerts"
CHANNELS = "/projects/fraud/channels"
USUAL = {"amount": normal(50, 10), "age": normal(40, 12), "country": kinds("AE", "OM", chances=(0.7, 0.3))}
DRIFTED = USUAL | {"amount": normal(75, 10)}


class Team:
    """The endpoint `scores`; Maryam deploys, Sami writes, Omar looks on, and Eve belongs to another project."""

    def __init__(self, site: Site) -> None:
        self.site = site
        site.project("fraud", "Card fraud")
        site.project("other")
        self.maryam = site.person("maryam", roles={"fraud": Role.ENGINEER})
        self.sami = site.person("sami", roles={"fraud": Role.SCIENTIST})
        self.omar = site.person("omar", roles={"fraud": Role.VIEWER})
        self.eve = site.person("eve", roles={"other": Role.ADMIN})
        served.version(site)
        self.endpoint = served.deploy(site, 1)
        self.plane = monitored.Plane(site)

    def get(self, path: str, token: str | None = None) -> httpx.Response:
        with self.site.client(token or self.maryam) as client:
            return client.get(path)

    def text(self, path: str, token: str | None = None) -> str:
        """What a page says, as people read it."""
        answer = self.get(path, token)
        assert answer.status_code == 200, answer.text
        return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text)))

    def submit(self, place: str, operation: str, token: str | None = None, **fields: Any) -> httpx.Response:
        """Fill in a form of a page, send it, and follow to where it leads."""
        with self.site.client(token or self.maryam) as client:
            form = Form(client.get(place).text, f"{place.partition('?')[0]}/-/{operation}")
            answer = form.send(client, **fields)
            return client.get(answer.headers["location"]) if answer.status_code == 303 else answer

    def leaves(self, operation: str) -> int:
        self.site.platform.sequencer.step(close_all_windows=True)
        return len(self.site.call(LOG, ReadLog(operation=operation)).items)

    def traffic(self, usual: int, drifted: int = 0) -> None:
        """So many windows as they should be, and then so many that are not."""
        traffic = monitored.Traffic(self.site, self.plane, self.endpoint, usual + drifted + 2)
        traffic.learn(USUAL)
        traffic.send([USUAL] * usual + [DRIFTED] * drifted)


@pytest.fixture
def team(tmp_path: Any) -> Iterator[Team]:
    for site in running_site(tmp_path):
        yield Team(site)


# Health


def test_before_anything_answers_the_page_says_what_to_do(team: Team) -> None:
    page = team.get("/projects/other/monitors", team.eve).text
    assert "Nothing to watch yet" in page
    assert 'href="/projects/other/monitors" aria-current="page"' in page
    assert "Nothing needs you" in team.text("/projects/other/alerts", team.eve)
    assert "No channel yet" in team.text("/projects/other/channels", team.eve)


def test_an_endpoint_is_watched_by_a_form_and_by_those_who_may(team: Team) -> None:
    assert "not watched" in team.text(HEALTH)
    assert "not watched" in team.text("/projects/fraud/endpoints/scores")
    assert "Watch an endpoint" not in team.text(HEALTH, team.sami)
    wrong = team.submit(HEALTH, "monitor.apply", endpoint="scores", window="0", floor="0.3", one_in="500")
    assert wrong.status_code == 400
    assert 'value="0.3"' in wrong.text, "what was typed is kept"
    page = team.submit(HEALTH, "monitor.apply", endpoint="scores", window="300", floor="0.3", one_in="500")
    assert page.url.path == PAGE
    assert "It is watched so from now on" in page.text
    wishes = monitored.show(team.site).wishes
    assert (wishes.window, wishes.floor, wishes.one_in) == (300, 0.3, 500)
    assert "learning" in team.text(HEALTH, team.omar)


def test_those_that_need_somebody_stand_first(team: Team) -> None:
    for name in ("calm", "zeal"):
        served.deploy(team.site, 1, name)
        monitored.apply(team.site, name)
    monitored.sight(team.site, drift(), endpoint=monitored.apply(team.site).endpoint)
    page = team.get(HEALTH).text
    order = re.findall(r'<th scope="row"><a href="/projects/fraud/endpoints/(\w+)/monitor">', page)
    assert order == ["scores", "calm", "zeal"]
    assert f'href="{ALERTS}?endpoint=scores">1 open</a>' in page
    assert "1 of 3 columns drift" in page
    assert '<span class="tone-bad">1</span>' in page  # an open alert of drift counts, also while nobody calls


def test_budgets_are_shown_where_there_are_objectives(team: Team) -> None:
    monitored.apply(team.site, objectives=(Objective(kind="availability", share=0.999),))
    team.plane.report(team.endpoint, **served.did(600, errors=1))
    listed, page = team.text(HEALTH), team.text(PAGE)
    assert "% left" in listed
    assert "99.9 % without an error, over 30 days" in page
    assert "no objective" not in listed


# Drift


def test_drift_is_told_in_a_sentence_drawn_and_led_to_from_everywhere(team: Team) -> None:
    monitored.apply(team.site)
    team.traffic(4, 4)
    assert monitored.show(team.site).health == "drifting"
    page = team.get(PAGE).text
    assert "1 of 4 columns drifts against the first rows that it answered: amount (" in html.unescape(page)
    assert page.count('class="heat-row"') == 4
    assert re.search(r'<a href="[^"]*column=amount#column" title="amount"><bdi>amount</bdi>[^:]*: 0\.\d\d away', page)
    assert page.index('title="amount"') < page.index('title="age"'), "the furthest first"
    assert 'class="heat-alarm"' in page
    assert team.leaves("monitor.column") == 0, "no column is read before somebody chose one"
    assert "drifting" in team.text(HEALTH)
    assert "drifting" in team.text("/projects/fraud/endpoints/scores")
    assert "scores:" in team.text("/", team.omar)
    assert 'class="heat-row"' not in team.get("/projects/fraud/endpoints/scores").text


def test_a_column_that_was_chosen_is_shown_as_it_was_and_as_it_is(team: Team) -> None:
    monitored.apply(team.site)
    team.traffic(2, 3)
    page = team.get(f"{PAGE}?column=amount").text
    assert 'class="spread-before"' in page
    assert "Kolmogorov-Smirnov" in page
    assert "Wasserstein" in page
    assert 'class="heat-row chosen"' in page
    assert team.leaves("monitor.column") == 1
    assert "The numbers behind the bars" in page
    category = team.text(f"{PAGE}?column=country")
    assert "AE" in category
    news = team.get(f"{PAGE}?column=amount&now=1").text
    assert team.leaves("monitor.column") == 2, "a look for news reads no column"
    assert 'class="heat-row chosen"' in news
    assert "Nothing to show of it" in team.text(f"{PAGE}?column=no+such+column")


def test_what_is_missed_and_what_is_learnt_is_stated(team: Team) -> None:
    monitored.apply(team.site, learn_rows=10_000)
    assert "no window of traffic is complete" in team.text(PAGE)
    traffic = monitored.Traffic(team.site, team.plane, team.endpoint, 3)
    traffic.learn(USUAL, rows=2000)
    page = team.text(PAGE)
    assert "4 columns, 2,000 of 10,000 rows so far" in page
    traffic.send([USUAL], missed=150)
    assert "150 of 4,750 rows" in team.text(PAGE)
    assert "the verdict is of a sample" in team.text(PAGE)


def test_of_many_features_as_many_are_drawn_as_can_be_read(team: Team) -> None:
    monitored.apply(team.site)
    many = {f"feature {number:02d}": normal(number, 1) for number in range(40)}
    traffic = monitored.Traffic(team.site, team.plane, team.endpoint, 4)
    traffic.learn(many)
    traffic.send([many | {"feature 33": normal(40, 1)}] * 2)
    page = team.get(PAGE).text
    drawn = re.findall(r'column" title="([^"]*)"', page)
    assert len(drawn) == 20
    assert drawn[0] == "feature 33"
    assert "All 41 features in the last window" in page


def test_hostile_names_are_shown_as_text(team: Team) -> None:
    monitored.apply(team.site)
    nasty = {NASTY: normal(), "usual": normal()}
    traffic = monitored.Traffic(team.site, team.plane, team.endpoint, 4)
    traffic.learn(nasty)
    traffic.send([nasty | {NASTY: normal(3)}] * 2)
    told = Told(column=NASTY, effect=0.5, evidence=9.0, missing=0.0, outside=0.0, drifting=True)
    [alert, *_] = monitored.sight(team.site, drift(NASTY, key="schema/1", sentences=(NASTY,), columns=(told,)))
    for path in (PAGE, HEALTH, ALERTS, f"{ALERTS}/{alert.id}", "/", f"{PAGE}?{httpx.QueryParams({'column': NASTY})}"):
        page = team.get(path).text
        assert "<script>alert(1)" not in page, path
        assert "49 ünï" not in page, path
        assert "ünï" in page, path


def test_wishes_are_changed_whole_and_nothing_is_lost(team: Team) -> None:
    act = Act(do="roll-back", on=("drift", "quality"), approval=True)
    objective = Objective(kind="latency", share=0.99, milliseconds=80, days=7)
    stored.write(team.site, b"amount,age\n1,2\n", "payments")
    before = monitored.apply(team.site, ignore=("id", NASTY), actions=(act,), objectives=(objective,), escalate_after=90)
    fields = browser_fields(team.get(PAGE).text, f"{PAGE}/-/monitor.apply")
    with team.site.client(team.maryam) as client:
        assert client.post(f"{PAGE}/-/monitor.apply", data=fields).status_code == 303
    assert monitored.show(team.site).wishes == before.wishes, "a form that is sent as it came changes nothing"
    with team.site.client(team.maryam) as client:
        fields = browser_fields(client.get(PAGE).text, f"{PAGE}/-/monitor.apply")
        client.post(f"{PAGE}/-/monitor.apply", data=fields | {"do-1": "pause-canary", "on-1": "drift", "floor": "0.25"})
    wishes = monitored.show(team.site).wishes
    assert (wishes.floor, wishes.actions) == (0.25, (act, Act(do="pause-canary")))


def browser_fields(page: str, action: str) -> dict[str, list[str]]:
    """All that a browser would send of a form that nobody touched."""
    found = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', page, re.DOTALL)
    assert found is not None
    fields: dict[str, list[str]] = {}
    for tag in re.findall(r"<input[^>]*>", found[0]):
        attributes = {name: html.unescape(text) for name, text in re.findall(r'([\w-]+)="([^"]*)"', tag)}
        if attributes.get("type") != "checkbox" or " checked" in tag:
            fields.setdefault(attributes["name"], []).append(attributes.get("value", ""))
    for name, options in re.findall(r'<select[^>]*name="([^"]*)".*?>(.*?)</select>', found[0], re.DOTALL):
        chosen = re.search(r'<option(?: value="([^"]*)")? selected>([^<]*)', options)
        first = re.search(r'<option(?: value="([^"]*)")?>([^<]*)', options)
        value, text = (chosen or first).groups()  # type: ignore[union-attr]
        fields[name] = [html.unescape(text if value is None else value)]
    for name, text in re.findall(r'<textarea[^>]*name="([^"]*)"[^>]*>(.*?)</textarea>', found[0], re.DOTALL):
        fields[name] = [html.unescape(text)]
    return fields


def test_watching_ends_with_a_button_and_its_alerts_stay(team: Team) -> None:
    monitored.apply(team.site)
    monitored.sight(team.site, drift())
    assert "watched no more" in team.submit(PAGE, "monitor.delete").text
    assert "Nobody watches it" in team.text(PAGE)
    assert "Ask somebody who may deploy here" in team.text(PAGE, team.omar)
    assert "1 of 3 columns drift" in team.text(f"{ALERTS}?which=all")


# Quality


def test_quality_is_drawn_with_its_intervals_once_the_truth_is_known(team: Team) -> None:
    monitored.apply(team.site)
    assert "No truth is known yet" in team.text(PAGE)
    monitored.labelled(team.site, team.plane, team.endpoint, days=3)
    page = team.get(PAGE).text
    assert 'class="bands"' in page
    assert page.count('class="bands-sure"') == 3
    assert "0.9" in page
    assert 'aria-current="true">accuracy' in page
    assert 'aria-current="true">F1' in team.get(f"{PAGE}?figure=F1").text
    assert "by hour" in team.text(f"{PAGE}?span=hour")


# Alerts


def test_the_inbox_shows_what_is_open_first_and_filters(team: Team) -> None:
    served.deploy(team.site, 1, "others")
    for name in ("scores", "others"):
        monitored.apply(team.site, name, quiet=1, window=1)
    monitored.sight(team.site, drift("It drifted"))
    monitored.sight(team.site, drift("It drifts elsewhere"), endpoint="others")
    page = team.text(ALERTS)
    assert "It drifted" in page
    assert "It drifts elsewhere" in page
    assert "nobody was told" in page
    assert "It drifted" not in team.text(f"{ALERTS}?endpoint=others")
    assert "amount 0.31" in page
    assert "It drifted" in team.text(f"{ALERTS}?which=nonsense")
    assert team.get(f"{ALERTS}?cursor=nonsense").status_code == 200


def test_those_who_write_say_that_they_see_to_it_and_come_back_to_where_they_were(team: Team) -> None:
    monitored.apply(team.site)
    [alert] = monitored.sight(team.site, drift())
    assert "1 of 3 columns drift" in team.text("/", team.omar)
    assert "I see to it" not in team.text(ALERTS, team.omar)
    page = team.submit(ALERTS, "alert.acknowledge", team.sami, alert=alert.id, _which="all", _endpoint="scores")
    assert str(page.url.query, "ascii") == "which=all&endpoint=scores&done=alert.acknowledge"
    assert "sees to it" in page.text
    assert "sami" in team.text(f"{ALERTS}/{alert.id}")
    assert "1 of 3 columns drift" not in team.text("/", team.omar), "it needs nobody else"
    assert "I see to it" not in team.text(f"{ALERTS}/{alert.id}", team.sami)


@pytest.mark.parametrize(("agree", "state"), [("true", "ready"), ("false", "refused")])
def test_those_who_deploy_decide_on_what_waits(team: Team, agree: str, state: str) -> None:
    monitored.apply(team.site, actions=(Act(do="pause-canary", approval=True),))
    [alert] = monitored.sight(team.site, drift())
    [action] = alert.actions
    assert action.state == "waiting"
    assert "Your word is wanted: keep the canary from growing for scores" in team.text("/")
    assert "Your word is wanted" not in team.text("/", team.sami)
    assert "waits for somebody who may deploy" in team.text(ALERTS, team.sami)
    one = f"{ALERTS}/{alert.id}"
    page = team.submit(one, "alert.decide", action=action.id, agree=agree)
    assert "Decided." in page.text
    [decided] = monitored.listed(team.site)[0].actions
    assert decided.state in (state, "done", "failed")
    assert (decided.state == "refused") == (agree == "false")


def test_an_alert_is_told_whole(team: Team) -> None:
    monitored.apply(team.site)
    [alert] = monitored.sight(team.site, drift(sentences=("First.", "It takes `amount`.", "Third.", "Fourth.")))
    page = team.text(f"{ALERTS}/{alert.id}")
    for words in ("First.", "Fourth.", "amount", "0.31", "4 ×", "2.0 %", "No action is set", "by nobody"):
        assert words in page


def test_what_belongs_to_another_project_is_not_found(team: Team) -> None:
    monitored.apply(team.site)
    [alert] = monitored.sight(team.site, drift())
    assert team.get(f"/projects/other/alerts/{alert.id}", team.eve).status_code == 404
    for path in (HEALTH, PAGE, ALERTS, f"{ALERTS}/{alert.id}", CHANNELS):
        assert team.get(path, team.eve).status_code in (403, 404), path
    assert team.get(f"{ALERTS}/{'0' * 32}").status_code == 404
    assert team.get(f"{ALERTS}/nonsense").status_code == 404
    assert team.get("/projects/fraud/endpoints/no-such/monitor").status_code == 404


@pytest.mark.parametrize("who", ["sami", "omar"])
def test_forms_that_a_role_does_not_have_are_neither_shown_nor_taken(team: Team, who: str) -> None:
    monitored.apply(team.site)
    [alert] = monitored.sight(team.site, drift())
    token = getattr(team, who)
    page = team.get(PAGE, token).text
    assert "monitor.apply" not in page
    assert "monitor.delete" not in page
    assert "channel.set" not in team.get(CHANNELS, token).text
    csrf = Form(team.get("/projects", token).text, "/sign-out").fields["_csrf"]
    wanted = [
        (PAGE, "monitor.delete", {}),
        (PAGE, "monitor.apply", {"floor": "1"}),
        (CHANNELS, "channel.delete", {"channel": "x"}),
    ]
    if who == "omar":
        wanted.append((f"{ALERTS}/{alert.id}", "alert.acknowledge", {}))
    with team.site.client(token) as client:
        for place, operation, fields in wanted:
            answer = client.post(f"{place}/-/{operation}", data={"_csrf": csrf, "_key": operation, **fields})
            assert answer.status_code == 403, operation
    assert monitored.show(team.site).wishes.floor == 0.1
    assert monitored.listed(team.site)[0].acknowledged is None


def test_who_administers_the_platform_alone_is_told_that_it_is_closed(team: Team) -> None:
    monitored.apply(team.site)
    [alert] = monitored.sight(team.site, drift())
    root = team.site.person("root", platform=Role.ADMIN)
    for path in (HEALTH, ALERTS, CHANNELS):
        assert "Closed to you" in team.text(path, root), path
        assert "scores" not in team.text(path, root), path
    for path in (PAGE, f"{ALERTS}/{alert.id}"):
        assert team.get(path, root).status_code == 403, path


def test_a_monitor_that_may_not_be_read_is_not_taken_for_none(team: Team) -> None:
    monitored.apply(team.site, floor=0.3)
    rule = 'forbid (principal, action == Action::"monitor.read", resource);'
    team.site.call(PUT_POLICY, PutPolicy(project="fraud", policy="unseen", text=rule))
    page = team.get(PAGE).text
    assert "It could not be read" in page
    assert "not watched" not in team.text("/projects/fraud/endpoints/scores")
    assert "monitor.apply" not in page, "a form with nothing but defaults would undo what was wished"


# Channels


def test_a_channel_is_set_its_secret_shown_once_and_it_is_deleted(team: Team) -> None:
    address = "https://hooks.example.com/falaj?token=very-secret"
    page = team.submit(CHANNELS, "channel.set", channel="on-call", kind="webhook", url=address)
    secret = re.search(r'aria-label="the channel&#39;s secret">([^<]+)<', page.text)
    assert secret is not None
    later = team.get(CHANNELS).text
    assert "on-call" in later
    assert secret[1] not in later
    assert "very-secret" not in later
    assert "on-call" in team.get(HEALTH).text
    wrong = team.submit(CHANNELS, "channel.set", channel="Bad Name", kind="webhook", url=address)
    assert wrong.status_code == 400
    assert 'value="Bad Name"' in wrong.text
    assert "very-secret" not in wrong.text, "an address is typed again"
    assert "Alerts are sent there no more" in team.submit(CHANNELS, "channel.delete", channel="on-call").text
    assert team.site.call(alerts.LIST_CHANNELS, alerts.ListChannels(project="fraud")).items == ()
