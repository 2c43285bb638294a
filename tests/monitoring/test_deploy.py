"""The alert rules and the dashboard in `deploy` ask for metrics that are there, and the rules fire when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from falaj.api.metrics import Metrics
from falaj.monitoring.metrics_names import BURN_RATE, KINDS, METRICS, OUTCOMES, WINDOWS
from falaj.serving.operations.loads import CardLoad, PlaneLoad
from falaj.serving.operations.planes import RevisionReport, RungReport
from falaj.serving.plane.figures import Figures
from falaj.serving.states import Endpoint
from falaj.statistics.burning import RULES

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES_FILE = DEPLOY / "prometheus" / "falaj-alerts.yml"
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]}
DASHBOARD = json.loads((DEPLOY / "grafana" / "falaj-endpoints.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
VARIABLES = [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
ADDED = {"instance", "le"}  # labels that Prometheus itself gives
PROMTOOL = shutil.which("promtool") or "promtool"  # of Debian's package prometheus


def shown_by_a_plane() -> str:
    endpoint = Endpoint(id="2" * 32, project="3" * 32, project_name="p", name="e", arms=(), revisions=())
    rungs = (RungReport(name="v", requests=1),)
    did = RevisionReport(endpoint=endpoint.id, revision=1, ready=True, cold_start_ms=1, latencies=(1,), rungs=rungs)
    figures = Figures()
    figures.gather([did], [], {"t": (1, 1, 1)})
    of_revision, load = {(endpoint.id, 1): 1}, PlaneLoad(cards=(CardLoad(busy=0.5),))
    standing = {(endpoint.id, 1, "v"): 1}
    return figures.text([endpoint], workers=1, serial=1, load=load, waiting=of_revision, standing=standing)


def shown_by_the_control_plane() -> str:
    metrics = Metrics()
    metrics.calls.labels("o", "200").inc()
    metrics.seconds.labels("o").observe(1)
    return metrics.exposition().decode()


def known() -> dict[str, set[str]]:
    """Labels by name, of all that is shown."""
    found = {metric.name: set(metric.labels) for metric in METRICS}
    for text in (shown_by_a_plane(), shown_by_the_control_plane()):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


KNOWN = known()


@pytest.mark.parametrize("query", [*(rule["expr"] for rule in ALERTS.values()), *QUERIES, *VARIABLES])
def test_only_what_is_there_is_asked_for(query: str) -> None:
    names = set(re.findall(r"\bfalaj_[a-z_]+", query))
    assert names
    assert names <= set(KNOWN)
    for name, labels in re.findall(r"(falaj_[a-z_]+)\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)=~?\"", labels)) <= KNOWN[name]
    grouped = {label for some in re.findall(r"(?:by|on) \(([^)]*)\)", query) for label in some.split(", ")}
    assert grouped <= {label for name in names for label in KNOWN[name]} | ADDED


def test_each_new_metric_has_its_place_on_the_dashboard_and_a_name_of_its_kind() -> None:
    shown = set(re.findall(r"\bfalaj_[a-z_]+", " ".join(QUERIES)))
    assert {metric.name for metric in METRICS} <= shown
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.help.endswith(".")


def test_what_an_alert_says_of_itself_is_what_it_was_found_by() -> None:
    for rule in ALERTS.values():
        said = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        kept = re.findall(r"by \(([^)]*)\)", rule["expr"])
        assert said <= {label for some in kept for label in some.split(", ")}


def test_budgets_burn_by_the_rules_that_falaj_itself_goes_by() -> None:
    asked = {
        (float(rate), window)
        for name in ("FalajBudgetBurnsFast", "FalajBudgetBurnsSlowly")
        for window, rate in re.findall(BURN_RATE.name + r'\{window="(\w+)"\}\) >= ([\d.]+)', ALERTS[name]["expr"])
    }
    assert asked == {(rule.rate, WINDOWS[int(window)]) for rule in RULES for window in (rule.long, rule.short)}


def test_outcomes_and_kinds_that_are_asked_for_are_told() -> None:
    assert set(re.findall(r'outcome="([\w-]+)"', str(ALERTS))) <= set(OUTCOMES)
    assert set(re.findall(r'kind="([\w-]+)"', str(ALERTS))) <= set(KINDS)


def test_what_is_certain_and_too_small_to_matter_is_no_reason_to_wake_anybody() -> None:
    assert not [name for name, rule in ALERTS.items() if "falaj_monitor_evidence_ratio" in rule["expr"]]


def test_no_two_panels_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


OF = 'project="p",endpoint="e"'
CASES = {  # which rule, what there is (as promtool writes series), and whether the rule fires after an hour and a half
    "drift": ("FalajDrift", {f'falaj_monitor_drifting_columns{{{OF},revision="1"}}': "2x120"}, True),
    "certain and too small to matter": (
        "FalajDrift",
        {
            f'falaj_monitor_evidence_ratio{{{OF},revision="1"}}': "50x120",
            f'falaj_monitor_drift_effect{{{OF},revision="1",column="c"}}': "0.01x120",
            f'falaj_monitor_drifting_columns{{{OF},revision="1"}}': "0x120",
            f'falaj_monitor_rows_drifting{{{OF},revision="1"}}': "0x120",
        },
        False,
    ),
    "rows as a whole": ("FalajRowsDrift", {f'falaj_monitor_rows_drifting{{{OF},revision="1"}}': "1x120"}, True),
    "missing": ("FalajColumnMissing", {f'falaj_monitor_missing_rise{{{OF},revision="1",column="c"}}': "0.2x120"}, True),
    "always missing": (
        "FalajColumnMissing",
        {
            f'falaj_monitor_missing_share{{{OF},revision="1",column="c"}}': "0.6x120",
            f'falaj_monitor_missing_rise{{{OF},revision="1",column="c"}}': "0x120",
        },
        False,
    ),
    "schema": ("FalajSchemaChanged", {f'falaj_alerts_open{{{OF},kind="schema",severity="warning"}}': "1x120"}, True),
    "another kind": ("FalajSchemaChanged", {f'falaj_alerts_open{{{OF},kind="drift",severity="warning"}}': "1x120"}, False),
    "quality": ("FalajQualityFell", {f'falaj_alerts_open{{{OF},kind="quality",severity="warning"}}': "1x120"}, True),
    "not looked at": (
        "FalajRowsNotLookedAt",
        {
            f'falaj_monitor_rows_total{{{OF},revision="1"}}': "0+90x120",
            f'falaj_monitor_rows_missed_total{{{OF},revision="1"}}': "0+10x120",
        },
        True,
    ),
    "looked at": (
        "FalajRowsNotLookedAt",
        {
            f'falaj_monitor_rows_total{{{OF},revision="1"}}': "0+99x120",
            f'falaj_monitor_rows_missed_total{{{OF},revision="1"}}': "0+1x120",
        },
        False,
    ),
    "behind": (
        "FalajMonitorBehind",
        {
            f"falaj_monitor_window_age_seconds{{{OF}}}": "4000x120",
            f'falaj_serving_requests_total{{{OF},revision="1",instance="a"}}': "0+9x120",
        },
        True,
    ),
    "nobody calls": (
        "FalajMonitorBehind",
        {
            f"falaj_monitor_window_age_seconds{{{OF}}}": "4000x120",
            f'falaj_serving_requests_total{{{OF},revision="1"}}': "7x120",
        },
        False,
    ),
    "burns fast": (
        "FalajBudgetBurnsFast",
        {f'falaj_slo_burn_rate{{{OF},objective="o",window="{window}"}}': "15x120" for window in ("5m", "1h")},
        True,
    ),
    "burnt fast, and is over": (
        "FalajBudgetBurnsFast",
        {
            f'falaj_slo_burn_rate{{{OF},objective="o",window="1h"}}': "15x120",
            f'falaj_slo_burn_rate{{{OF},objective="o",window="5m"}}': "0x120",
        },
        False,
    ),
    "two objectives are not one": (
        "FalajBudgetBurnsFast",
        {
            f'falaj_slo_burn_rate{{{OF},objective="o",window="1h"}}': "15x120",
            f'falaj_slo_burn_rate{{{OF},objective="other",window="5m"}}': "15x120",
        },
        False,
    ),
    "burns slowly": (
        "FalajBudgetBurnsSlowly",
        {f'falaj_slo_burn_rate{{{OF},objective="o",window="{window}"}}': "1.5x120" for window in ("6h", "3d")},
        True,
    ),
    "spent": ("FalajBudgetSpent", {f'falaj_slo_budget_left{{{OF},objective="o"}}': "-0.1x120"}, True),
    "all are refused": (
        "FalajPredictionsShed",
        {
            f'falaj_serving_requests_total{{{OF},revision="1"}}': "5x120",
            f'falaj_serving_shed_total{{{OF},revision="1"}}': "0+9x120",
        },
        True,
    ),
    "one in ten fails": (
        "FalajPredictionsFail",
        {
            f'falaj_serving_requests_total{{{OF},revision="1"}}': "0+10x120",
            f'falaj_serving_errors_total{{{OF},revision="1"}}': "0+1x120",
        },
        True,
    ),
    "a tap fails": ("FalajTapFails", {'falaj_plane_tap_failed_total{tap="t",instance="a"}': "0+1x120"}, True),
    "calls fail": (
        "FalajCallsFail",
        {
            'falaj_calls_total{operation="o",status="200"}': "0+1x120",
            'falaj_calls_total{operation="o",status="503"}': "0+1x120",
        },
        True,
    ),
    "not sent": ("FalajAlertNotSent", {'falaj_alert_posts_total{project="p",outcome="given-up"}': "0x70 1x50"}, True),
    "tried again": ("FalajAlertNotSent", {'falaj_alert_posts_total{project="p",outcome="failed"}': "0x70 1x50"}, False),
    "critical": ("FalajAlertUnattended", {f'falaj_alerts_open{{{OF},kind="drift",severity="critical"}}': "1x120"}, True),
    "just critical": (
        "FalajAlertUnattended",
        {f'falaj_alerts_open{{{OF},kind="drift",severity="critical"}}': "0x60 1x60"},
        False,
    ),
}


def test_promtool_finds_nothing_wrong() -> None:
    done = subprocess.run([PROMTOOL, "check", "rules", str(RULES_FILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    tests = [
        {
            "interval": "1m",
            "name": name,
            "input_series": [{"series": series, "values": values} for series, values in given.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                    "eval_time": "90m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for name, (alert, given, fires) in CASES.items()
    ]
    written = {"rule_files": [str(RULES_FILE)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(written))
    done = subprocess.run([PROMTOOL, "test", "rules", str(tmp_path / "tests.yml")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_has_a_case_that_fires() -> None:
    assert {alert for alert, _, fires in CASES.values() if fires} == set(ALERTS)
