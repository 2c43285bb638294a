"""What Prometheus is told: text it can read, all that rules and dashboard ask for, nothing of projects of others."""

import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import delete, select

from falaj.base.clock import HOUR, MINUTE, SECOND
from falaj.base.errors import Forbidden
from falaj.base.values import Nothing
from falaj.database.work import UnitOfWork
from falaj.governance.identity import member_operations as members
from falaj.governance.roles import Role
from falaj.monitoring.metrics import FRESH_FOR, MOST_COLUMNS
from falaj.monitoring.metrics_names import METRICS, WINDOWS
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Objective
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store import windows as window_store
from falaj.monitoring.store.tables import outbox
from falaj.operations.operations import METRICS as SCRAPE
from tests.monitoring.alerts.platform import Watched, drift
from tests.serving.control.platform import PROJECT, Platform

WISHES = Wishes(objectives=(Objective(kind="availability", share=0.999), Objective(kind="latency", share=0.9, milliseconds=50)))

ORDER = {metric.name: metric.labels for metric in METRICS}


class Scraped(Watched):
    """A watched endpoint, whose windows tests make, as it is seen by Prometheus."""

    def text(self, token: str = "") -> str:
        self.platform.clock.forward(FRESH_FOR)
        return b"".join(self.platform.call(SCRAPE, Nothing(), token).chunks).decode()

    def shown(self, token: str = "") -> dict[str, dict[tuple[str, ...], float]]:
        """By name and by the labels' values."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(self.text(token)):
            for sample in family.samples:
                values = tuple(sample.labels[name] for name in ORDER.get(sample.name, sorted(sample.labels)))
                assert values not in found.setdefault(sample.name, {}), "a series twice makes a scrape fail"
                found[sample.name][values] = sample.value
        return found

    def window(
        self, columns: list[dict[str, Any]], *, revision: int = 1, rows: int = 500, missed: int = 20, **told: Any
    ) -> None:
        """One that was closed just now."""
        at = int(self.platform.clock.now()) // MINUTE * MINUTE - MINUTE

        def enter(work: UnitOfWork) -> None:
            place = {"monitor": self.id, "revision": revision, "project": self.project, "key": "k"}
            if monitor_store.reference(work, self.id, revision) is None:
                state = {"revision_id": self.endpoint.revisions[0].id, "zone": "home", "blob": "", "standing": "{}"}
                monitor_store.put_reference(work, {**place, **state, "closed": 0, "late": 0})
            found = json.dumps({"columns": columns, **told})
            counts = {"rows": rows, "missed": missed, "found": found, "blob": ""}
            window_store.add(work, {**place, **counts, "at": at, "until": at + MINUTE})
            monitor_store.change_reference(work, self.id, revision, closed=at)

        self.platform.app.database.write(enter)

    def look(self) -> None:
        self.platform.clock.forward(MINUTE)
        self.platform.app.monitoring.step(self.platform.clock.now())


def column(name: str, effect: float = 0.2, evidence: float = 1.5, missing: float = 0.0) -> dict[str, Any]:
    return {
        "column": name,
        "effect": effect,
        "evidence": evidence,
        "missing": missing,
        "outside": 0.0,
        "drifting": effect > 0.1,
    }


def test_everything_that_is_declared_is_shown_with_the_labels_it_is_declared_with(platform: Platform) -> None:
    scraped = Scraped(platform, Wishes(channels=("team",), objectives=WISHES.objectives))
    platform.plane().did(scraped.endpoint, 1, requests=1000, errors=30, latencies=(1000,))
    scraped.window([column("amount"), column("country", effect=0.01, evidence=0.1, missing=0.4)])
    scraped.sees(drift("critical"))
    scraped.look()
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(scraped.text()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    for metric in METRICS:
        assert labels[metric.name] == set(metric.labels)
    shown = scraped.shown()
    assert shown["falaj_monitor_drift_effect"][PROJECT, "scores", "1", "amount"] == 0.2
    assert shown["falaj_monitor_missing_share"][PROJECT, "scores", "1", "country"] == 0.4
    assert shown["falaj_monitor_evidence_ratio"] == {(PROJECT, "scores", "1"): 1.5}
    assert shown["falaj_alerts_open"][PROJECT, "scores", "drift", "critical"] == 1
    assert shown["falaj_alerts_open"][PROJECT, "scores", "schema", "critical"] == 0
    assert shown["falaj_slo_burn_rate"][PROJECT, "scores", "availability", "1h"] == pytest.approx(30)
    assert {labels[-1] for labels in shown["falaj_slo_burn_rate"]} == set(WINDOWS.values())
    assert shown["falaj_slo_budget_left"][PROJECT, "scores", "latency"] == 1


def test_what_drifts_is_what_the_monitor_calls_drift_and_not_what_is_certain(small: Platform) -> None:
    scraped = Scraped(small)
    key = (PROJECT, "scores", "1")
    scraped.window([column("amount", effect=0.01, evidence=50), column("age", effect=0.05, evidence=3, missing=0.6)])
    shown = scraped.shown()
    assert shown["falaj_monitor_evidence_ratio"][key] == 50
    assert (shown["falaj_monitor_drifting_columns"][key], shown["falaj_monitor_rows_drifting"][key]) == (0, 0)
    assert shown["falaj_monitor_missing_rise"][*key, "age"] == 0
    small.clock.forward(MINUTE)
    scraped.window([column("amount", effect=0.2, evidence=50), column("age", effect=0.3, missing=0.9)], missing={"age": 0.3})
    together = {"rows": 300, "area": 0.8, "chance": 0.0, "named": [], "drifting": True}
    standing = json.dumps({"together": {"last": together}})
    small.app.database.write(lambda work: monitor_store.change_reference(work, scraped.id, 1, standing=standing))
    shown = scraped.shown()
    assert (shown["falaj_monitor_drifting_columns"][key], shown["falaj_monitor_rows_drifting"][key]) == (2, 1)
    assert shown["falaj_monitor_missing_rise"] == {(*key, "amount"): 0, (*key, "age"): 0.3}


def test_counts_only_grow_though_windows_are_forgotten_and_the_platform_starts_anew(platform: Platform) -> None:
    scraped = Scraped(platform, WISHES)
    key = (PROJECT, "scores", "1")
    scraped.window([column("amount")])
    scraped.look()
    scraped.look()
    assert scraped.shown()["falaj_monitor_rows_total"][key] == 500
    platform.app.database.write(lambda work: window_store.drop(work, window_store.last(work, scraped.id, 1, 0, 10)))
    monitor = scraped.id
    platform.app.database.write(lambda work: monitor_store.change_reference(work, monitor, 1, late=7))
    scraped.window([column("amount")])
    scraped.look()
    shown = scraped.shown()
    assert shown["falaj_monitor_rows_total"][key] == 1000
    assert shown["falaj_monitor_rows_missed_total"][key] == 47
    platform.app.database.write(lambda work: monitor_store.change_reference(work, monitor, 1, late=2))  # learnt anew
    scraped.look()
    assert scraped.shown()["falaj_monitor_rows_missed_total"][key] == 49


def test_what_was_sent_stays_counted_when_old_messages_are_forgotten(platform: Platform) -> None:
    scraped = Scraped(platform, Wishes(channels=("team", "pager")))
    scraped.sees(drift())
    posting = platform.app.monitoring.posting
    rows = {row.channel: row for row in platform.app.database.read(lambda work: work.execute(select(outbox)).all())}
    posting._settle(rows["team"], "nobody answered", is_final=False)
    posting._settle(rows["team"], "", is_final=True)  # of the same try: it was counted
    posting._settle(again(platform, "team"), "", is_final=True)
    posting._settle(rows["pager"], "there is no such channel", is_final=True)
    told = {(PROJECT, "sent"): 1, (PROJECT, "failed"): 2, (PROJECT, "given-up"): 1}
    assert scraped.shown()["falaj_alert_posts_total"] == told
    platform.app.database.write(lambda work: work.execute(delete(outbox)))
    platform.clock.forward(MINUTE)
    assert scraped.shown()["falaj_alert_posts_total"] == told


def again(platform: Platform, channel: str) -> Any:
    """A message as it lies there now."""
    mine = select(outbox).where(outbox.c.channel == channel)
    return platform.app.database.read(lambda work: work.execute(mine).one())


def test_what_is_long_over_is_not_told_as_if_it_were_so_and_how_old_it_is_is_told(small: Platform) -> None:
    scraped = Scraped(small, WISHES)
    scraped.window([column("amount")])
    scraped.look()
    assert scraped.shown()["falaj_monitor_evidence_ratio"]
    small.clock.forward(HOUR)
    shown = scraped.shown()
    assert "falaj_monitor_evidence_ratio" not in shown
    assert "falaj_slo_burn_rate" not in shown
    assert shown["falaj_monitor_window_age_seconds"][PROJECT, "scores"] == pytest.approx(3600 + 60, abs=120)


def test_a_monitor_that_never_decided_is_as_old_as_it_is(small: Platform) -> None:
    scraped = Scraped(small)
    small.clock.forward(2 * HOUR)
    assert scraped.shown()["falaj_monitor_window_age_seconds"][PROJECT, "scores"] == pytest.approx(7200, abs=60)


def test_of_very_many_columns_the_furthest_and_the_most_missing_are_shown(small: Platform) -> None:
    scraped = Scraped(small)
    many = [column(f"c{number}", effect=number / 500, missing=1 - number / 500) for number in range(500)]
    scraped.window(many)
    shown = scraped.shown()["falaj_monitor_drift_effect"]
    assert len(shown) == MOST_COLUMNS
    assert (PROJECT, "scores", "1", "c499") in shown
    assert (PROJECT, "scores", "1", "c0") in shown


def test_names_that_would_break_the_text_are_escaped(small: Platform) -> None:
    scraped = Scraped(small)
    odd = 'a"} 1\nfalaj_alerts_open{project="x'
    scraped.window([column(odd)])
    assert (PROJECT, "scores", "1", odd) in scraped.shown()["falaj_monitor_drift_effect"]


def test_who_scrapes_sees_the_projects_whose_monitors_he_may_read_and_no_others(small: Platform) -> None:
    scraped = Scraped(small, WISHES)
    scraped.window([column("secret-column")])
    scraped.look()
    scraper = small.person("prometheus")
    with pytest.raises(Forbidden):
        scraped.text(scraper)
    small.call(members.ADD_PLATFORM_MEMBER, members.PlatformMember(member="prometheus", role=Role.OPERATOR))
    text = scraped.text(scraper)
    assert "falaj_calls_total" in text
    assert "secret-column" not in text
    assert "scores" not in text
    small.call(members.ADD_MEMBER, members.AddMember(project=PROJECT, member="prometheus", role=Role.VIEWER))
    assert "secret-column" in scraped.text(scraper)


def test_scrapes_that_follow_each_other_closely_are_one_reading(small: Platform) -> None:
    scraped = Scraped(small)
    before = scraped.shown()
    scraped.window([column("amount")])
    small.clock.moment -= FRESH_FOR - SECOND
    assert scraped.shown() == before
    small.clock.forward(FRESH_FOR)
    assert scraped.shown() != before
