"""What traffic is held against: datasets that were named or that the model was made from, read by the right of whoever asks."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from falaj.base.clock import DAY
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.datasets.operations import writing
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.roles import Role
from falaj.monitoring.metrics import samples_of
from falaj.monitoring.metrics_names import DRIFT_EFFECT, MISSING_RISE, MISSING_SHARE
from falaj.monitoring.store import tables
from falaj.serving.operations import endpoints
from falaj.storage.operations import BLOB_GET, GetBlob
from tests.datasets.platform import arrow
from tests.monitoring.drift.platform import NAMES, QUICK, ROWS, Watched, rows_of, texts
from tests.serving.control.platform import PROJECT, called

DRAWN = replace(QUICK, reference="orders")


def spoken(watched: Watched, kind: str) -> str:
    return " ".join(watched.alerts()[kind].sentences)


def test_a_dataset_is_known_at_once_and_only_answers_are_learnt(watched: Watched):
    watched.write(rows_of(1, 5000))
    shown = watched.apply(DRAWN)
    assert (shown.watching[0].source, shown.watching[0].learning) == ("orders@1", ())
    watched.window(rows_of(2))
    assert {one.column for one in watched.last().columns} == set(NAMES)
    watched.learn()
    watched.window(rows_of(3))
    assert {one.column for one in watched.last().columns} > set(NAMES)
    assert watched.alerts("all") == {}
    [leaf] = watched.platform.leaves("monitor.apply")
    assert leaf.facts["references"] == {"1": "orders@1"}


def test_a_reference_stays_the_version_that_was_meant_until_it_is_named_anew(small: Watched):
    small.write(rows_of(1, 5000))
    assert small.apply(replace(QUICK, reference="orders")).wishes.reference == "orders@1"
    small.learn()
    small.write(rows_of(2, 5000, amount=40))
    kept = small.show()
    assert kept.watching[0].last is not None
    again = small.apply(kept.wishes, relearn=True)
    assert (again.wishes.reference, again.watching[0].source) == ("orders@1", "orders@1")
    assert (again.watching[0].last, again.watching[0].columns) == (None, ())  # windows so far were of another reference
    assert small.windows().items == ()
    small.window(rows_of(3))
    assert len(small.windows().items) == 1
    known = small.reference().key
    moved = small.apply(replace(QUICK, reference="orders"))
    assert (moved.wishes.reference, moved.watching[0].source) == ("orders@2", "orders@2")
    assert small.reference().key != known
    known = small.reference().key
    small.apply(replace(QUICK, reference="orders"))
    assert small.reference().key == known


def test_a_dataset_with_none_of_the_models_columns_is_refused(small: Watched):
    small.write(kind=np.arange(5))
    with pytest.raises(
        Invalid, match=r"'orders@1' has none of the columns that the model takes \(age, amount, items\); it has kind"
    ):
        small.apply(replace(QUICK, reference="orders"))
    with pytest.raises(NotFound):
        small.show()


def test_what_is_off_from_the_first_windows_on_is_called_skew(small: Watched):
    small.write(rows_of(1, 5000))
    small.apply(DRAWN)
    small.traffic(rows_of(seed, age=12) for seed in range(2000, 2003))
    assert "training-serving skew" in spoken(small, "drift")
    assert "not what it was in orders@1: age" in spoken(small, "drift")


def test_what_changes_later_is_not_called_skew(small: Watched):
    small.write(rows_of(1, 5000))
    small.apply(DRAWN)
    small.traffic(rows_of(seed) for seed in range(2000, 2006))
    small.traffic(rows_of(seed, age=12) for seed in range(3000, 3003))
    assert "skew" not in spoken(small, "drift")


def test_the_dataset_that_the_model_was_made_from_is_what_it_is_held_against(watched: Watched):
    watched.trained_on(watched.write(rows_of(1, 3000)), watched.write(name="countries", code=["ae", "om"]))
    assert watched.apply().watching[0].source == "orders@1"


def test_where_several_datasets_could_be_it_the_model_learns_from_traffic(small: Watched):
    small.trained_on(small.write(rows_of(1)), small.write(rows_of(2), name="more"))
    assert small.apply().watching[0].source == "traffic"


def test_whoever_may_not_read_a_dataset_has_no_reference_of_it(small: Watched):
    made = small.write(rows_of(1, 3000))
    engineer = small.platform.person("omar", Role.ENGINEER, Role.OPERATOR)
    small.platform.policy(
        """forbid (principal, action == Action::"dataset.read", resource) unless { principal.name == "owner" };""",
    )
    with pytest.raises(Forbidden):
        small.apply(DRAWN, token=engineer)
    small.trained_on(made)
    assert small.apply(token=engineer).watching[0].source == "traffic"
    small.platform.deploy(small.platform.register(files=small.files).version, mode="canary", share=1000)
    small.step()
    assert [one.source for one in small.show().watching] == ["traffic", "traffic"]


def test_a_token_that_may_not_read_data_has_none_read_for_what_is_deployed_later(small: Watched):
    made = small.write(rows_of(1, 3000))
    small.trained_on(made)
    narrow = small.platform.call(CREATE_TOKEN, CreateToken(scopes=("monitor.write", "monitor.read"))).token
    assert small.apply(token=narrow).watching[0].source == "traffic"
    small.version = small.platform.register(files=small.files)
    small.trained_on(made)
    small.platform.deploy(small.version.version, mode="canary", share=1000)
    small.step()
    assert [one.source for one in small.show().watching] == ["traffic", "traffic"]


def test_rows_do_not_leave_their_zone(small: Watched):
    small.platform.project("far", "home", "north")
    for name, zone in (("orders", "north"),):
        opened = small.platform.call(
            writing.OPEN_WRITE, writing.OpenWrite(project="far", dataset=name, mode="overwrite", create=True, zone=zone)
        )
        part = writing.WritePart(project="far", dataset=name, write=opened.id, piece=1)
        small.platform.call(writing.WRITE_PART, part, data=arrow(amount=[1.0, 2.0]))
        small.platform.call(writing.COMMIT_WRITE, writing.CommitWrite(project="far", dataset=name, write=opened.id, pieces=1))
    version = small.platform.register(files=small.files, project="far")
    small.platform.deploy(version.version, project="far", zone="home")
    with pytest.raises(Conflict, match="do not leave their zone"):
        small.apply(DRAWN, project="far")


def test_a_column_that_the_reader_may_not_see_is_not_shown_to_him_and_no_number_of_it_is_told(watched: Watched):
    watched.write(rows_of(1, 5000))
    watched.apply(DRAWN)
    watched.traffic(rows_of(seed) for seed in range(2000, 2003))
    viewer = watched.platform.person("amal", Role.VIEWER)
    assert watched.column("age", viewer).column == "age"
    watched.classify("age")
    with pytest.raises(NotFound, match="you may not see it"):
        watched.column("age", viewer)
    assert watched.column("amount", viewer).rows == watched.column("age").rows == 500
    watched.traffic(rows_of(seed, age=15) for seed in range(3000, 3003))
    told = spoken(watched, "drift")
    assert "age: distance" in told
    assert "its median moved" not in told


@pytest.mark.parametrize("known", ["by the monitor", "by lineage"])
def test_a_classified_column_stays_so_where_its_reference_had_to_be_learnt_from_traffic(small: Watched, known: str):
    made, revision = small.write(rows_of(1, 3000)), 1
    if known == "by lineage":
        small.trained_on(made)
        small.apply(token=small.platform.call(CREATE_TOKEN, CreateToken(scopes=("monitor.write", "monitor.read"))).token)
    else:
        small.apply(DRAWN, token=small.platform.person("omar", Role.ENGINEER, Role.OPERATOR))
        small.platform.policy(
            """forbid (principal, action == Action::"dataset.read", resource) when { principal.name == "omar" };"""
        )
        revision = small.platform.deploy(small.platform.register(files=small.files).version).revision
        small.step()
    small.learn(revision)
    viewer = small.platform.person("amal", Role.VIEWER)
    assert next(one for one in small.show().watching if one.revision == revision).source.startswith("traffic")
    assert small.column("age", viewer, revision=revision).bins
    small.classify("age")
    with pytest.raises(NotFound, match="you may not see it"):
        small.column("age", viewer, revision=revision)
    assert small.column("age", revision=revision).bins
    assert small.column("amount", viewer, revision=revision).bins
    for seed in range(3000, 3003):
        small.window(rows_of(seed, age=15), revision=revision)
    assert [math.isnan(one.missing) for one in small.last(revision).columns if one.column == "age"] == [True]
    told = spoken(small, "drift")
    assert "age: distance" in told
    assert "its median moved" not in told


def test_what_a_dataset_keeps_from_a_reader_logs_of_what_was_made_from_it_keep_too(small: Watched):
    small.trained_on(small.write(rows_of(1, 1000)))
    given = {
        "entities": {"Age": [40], "items": [2]},
        "amount": [[100]],
        "AGE": [[40]],
        "X": [[100, 40, 2]],
        "big": {"shape": [9]},
    }
    small.plane.report(calls=[called(small.endpoint, "one", small.clock.moment, inputs=json.dumps(given))])
    narrow = small.platform.call(CREATE_TOKEN, CreateToken(scopes=("endpoint.read-logs",))).token

    def told(token: str = "") -> Any:
        (call,) = small.platform.call(endpoints.READ_LOGS, endpoints.ReadLogs(project=PROJECT, endpoint="scores"), token).items
        return json.loads(call.inputs)

    assert told(narrow) == told() == given
    small.classify("age")
    withheld = {"entities": {"Age": "masked", "items": [2]}, "AGE": "masked", "X": "masked"}
    assert (told(narrow), told()) == (given | withheld, given)


def test_what_an_endpoint_masks_is_not_shown(small: Watched):
    small.apply()
    small.learn()
    assert small.column("age").bins
    options = replace(small.platform.show().options, masked=("age",))
    small.platform.call(endpoints.CONFIGURE, endpoints.Configure(project=PROJECT, endpoint="scores", options=options))
    with pytest.raises(NotFound):
        small.column("age")


def test_what_an_endpoint_masks_is_counted_and_does_not_look_like_other_rows(small: Watched):
    options = replace(small.platform.show().options, masked=("age",))
    small.platform.call(endpoints.CONFIGURE, endpoints.Configure(project=PROJECT, endpoint="scores", options=options))
    small.write(rows_of(1, 5000))
    small.apply(DRAWN)
    small.traffic(rows_of(seed) for seed in range(2000, 2008))
    assert shares_of(small, "age") == []
    assert len(shares_of(small, "amount")) == 2
    assert small.show().watching[0].together is not None
    assert small.alerts("all") == {}


def shares_of(watched: Watched, column: str) -> list[tuple[float, float]]:
    """What windows, the monitor and metrics tell of it beside its distance, which they tell all the same."""
    told = [one for one in (*watched.last().columns, *watched.show().watching[0].columns) if one.column == column]
    assert len(told) == 2
    now, database = watched.now, watched.platform.app.database
    samples = [one for one in database.read(lambda work: samples_of(work, now)) if one.labels[2:] == (column,)]
    assert DRIFT_EFFECT in [one.metric for one in samples]
    assert ({MISSING_SHARE, MISSING_RISE} <= {one.metric for one in samples}) is not math.isnan(told[0].missing)
    return [(one.missing, one.outside) for one in told if not math.isnan(one.missing + one.outside)]


def test_no_share_of_rows_of_a_classified_column_is_told(small: Watched):
    small.write(rows_of(1, 5000))
    small.apply(DRAWN)
    small.window(rows_of(2))
    assert len(shares_of(small, "age")) == 2
    small.classify("age")
    missing = rows_of(3)
    missing[: ROWS // 2, 1] = np.nan
    small.window(missing)
    assert shares_of(small, "age") == []
    assert small.last().columns[0].effect > 0


def test_how_a_column_is_spread_is_told_with_distances_in_its_unit(small: Watched):
    small.write(rows_of(1, 5000))
    small.apply(DRAWN)
    small.traffic(rows_of(seed, amount=20) for seed in range(2000, 2004))
    found = small.column("amount", windows=3)
    assert (found.rows, found.revision) == (1500, 1)
    assert found.distances["wasserstein"] == pytest.approx(20, abs=3)
    assert sum(one.reference for one in found.bins) == pytest.approx(1)
    assert sum(one.seen for one in found.bins) == pytest.approx(1)
    assert found.quantiles["median"] == pytest.approx(120, abs=5)
    assert found.quantiles["25 %"] == pytest.approx(120 - 0.674 * 20, abs=5)
    assert list(found.quantiles) == sorted(found.quantiles, key=lambda one: found.quantiles[one])
    assert "amount lies 0." in found.sentence
    with pytest.raises(NotFound):
        small.column("nothing")
    small.learn()
    answers = small.column("prediction confidence", windows=200)
    assert (answers.distinct, answers.distances) != (0, {})


def test_a_column_is_shown_over_the_windows_that_its_distance_was_measured_over(small: Watched):
    small.write(rows_of(1, 5000))
    small.apply(DRAWN)
    small.traffic(rows_of(seed) for seed in range(2000, 2006))
    quiet = small.column("amount")
    assert quiet.rows == 500
    assert " This is over the last window, from 2026-" in quiet.sentence
    small.traffic(rows_of(seed, amount=20) for seed in range(3000, 3004))
    [told] = [one for one in small.show().watching[0].columns if one.column == "amount"]
    found = small.column("amount")
    assert (told.drifting, found.rows) == (True, 2000)
    assert found.distances["ks"] == pytest.approx(told.effect, abs=0.005)
    assert " This is over the last 4 windows, from 2026-" in found.sentence
    assert "its median moved from 100" in spoken(small, "drift").replace("from 99.", "from 100.")


def test_long_texts_are_the_same_in_a_dataset_and_in_traffic_and_two_that_begin_alike_stay_two(small: Watched):
    agents = [
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " + one for one in ("Chrome", "Edg", "é" * 600)
    ]

    def asked(seed: int, likely: tuple[float, ...] = (0.5, 0.3, 0.2)) -> list[np.ndarray]:
        rows = rows_of(seed)
        drawn = texts(np.random.default_rng(seed).choice(agents, len(rows), p=likely))
        return [*(one.astype(np.float32) for one in rows.T[:2]), drawn]

    known = rows_of(1, 5000)
    items = [*np.random.default_rng(1).choice(agents, len(known), p=(0.5, 0.3, 0.2))]
    small.write(amount=known[:, 0], age=known[:, 1], items=items)
    small.apply(DRAWN)
    for seed in range(2000, 2006):
        small.window(rows_of(seed), columns=asked(seed))
    assert small.alerts("all") == {}
    spread = small.column("items")
    assert {one.name: round(one.reference, 1) for one in spread.bins if one.reference > 0.1}.keys() <= {
        one.name for one in spread.bins if one.seen > 0.1
    }
    assert len([one for one in spread.bins if one.seen > 0.1]) == 3
    for seed in range(3000, 3004):
        small.window(rows_of(seed), columns=asked(seed, (0.2, 0.6, 0.2)))
    assert "items" in spoken(small, "drift")


def test_the_least_and_the_largest_value_are_nobodys_to_see(small: Watched):
    rows = rows_of(1, 2000)
    rows[0, 0], rows[1, 0] = 987_654, -876_543
    small.write(rows)
    small.apply(DRAWN)
    small.traffic(rows_of(seed) for seed in range(2000, 2003))
    found = small.column("amount")
    assert found.bins[0].name.startswith("below ")
    assert found.bins[-2].name.startswith("above ")
    assert sum(one.reference for one in found.bins) == pytest.approx(1)
    for one in (found.bins[0], found.bins[-2]):
        assert one.reference >= 50 / 2000
    assert found.quantiles["median"] == pytest.approx(100, abs=5)
    small.traffic(rows_of(seed, amount=5_000_000) for seed in range(3000, 3003))
    beyond = small.column("amount")
    assert "amount: distance" in spoken(small, "drift")
    assert " to beyond 1" in spoken(small, "drift")
    small.traffic(rows_of(seed, amount=500_000) for seed in range(4000, 4003))
    within = small.column("amount", windows=2)
    told = f"{found} {beyond} {within} {spoken(small, 'drift')} {small.show()} {small.windows()}"
    for person in ("9876", "987,6", "9.877e", "8765", "876,5", "8.765e"):
        assert person not in told


def test_texts_that_few_rows_have_are_not_told(small: Watched):
    people = [f"person{number}" for number in range(200)]

    def asked(seed: int) -> list[np.ndarray]:
        rows, draw = rows_of(seed), np.random.default_rng(seed)
        likely = np.array([0.3, 0.3, *[0.4 / 200] * 200])
        return [
            *(one.astype(np.float32) for one in rows.T[:2]),
            texts(draw.choice(["card", "cash", *people], len(rows), p=likely)),
        ]

    small.apply()
    small.learn(columns=asked)
    small.window(rows_of(3000), columns=asked(3000))
    told = [one.name for one in small.column("items").bins]
    assert {"card", "cash", "others", "missing"} <= set(told)
    assert not any("person" in one for one in told)


def test_what_one_row_has_is_told_nobody_neither_while_a_column_is_learnt_nor_after(small: Watched):
    alone = [np.array([123456.0], np.float32), np.array([47.0], np.float32), texts(["Ahmed Al Rare"])]

    def asked(seed: int) -> list[np.ndarray]:
        return [*(one.astype(np.float32) for one in rows_of(seed).T[:2]), texts(["card"] * (ROWS - 1) + ["Ahmed Al Rare"])]

    small.apply()
    small.window(rows_of(1, 1), columns=alone)
    assert small.column("amount").quantiles == {}
    small.learn(columns=asked)
    assert small.column("amount", windows=200).quantiles.keys() <= {"5 %", "25 %", "median", "75 %", "95 %"}
    small.window(rows_of(1, 1), columns=alone)
    for name in ("amount", "items"):
        found = small.column(name, windows=1)
        assert (found.rows, found.bins, found.quantiles, found.distances) == (1, (), {}, {})
        assert "too few to be told" in found.sentence
    small.window(rows_of(1, 60), columns=[one.repeat(60) for one in alone])
    names = [one.name for one in small.column("items", windows=1).bins]
    assert "card" in names
    assert not any("Ahmed" in one for one in names)


def test_what_a_monitor_keeps_is_read_through_it_and_not_as_a_blob(small: Watched):
    small.write(rows_of(1, 2000))
    small.apply(DRAWN)
    small.window(rows_of(2))
    for blob in (small.reference().blob, small.rows(tables.windows)[0].blob):
        with pytest.raises(NotFound):
            small.platform.call(BLOB_GET, GetBlob(project=PROJECT, blob=blob))


def test_while_a_column_is_learnt_its_sketches_tell_of_it(small: Watched):
    small.apply()
    small.window(rows_of(1, 100))
    found = small.column("items")
    assert (found.bins, found.distances, found.distinct) == ((), {}, 5)
    assert found.quantiles["median"] == 3
    assert "still being learnt" in found.sentence


def test_a_new_version_upstream_is_named_and_columns_that_vanish_there_are_a_schema_change(small: Watched):
    small.write(rows_of(1, 5000))
    small.apply(DRAWN)
    small.window(rows_of(2))
    assert small.alerts() == {}
    rows = rows_of(3)
    small.write(amount=rows[:, 0], age=[str(one) for one in rows[:, 1]])
    small.window(rows_of(4))
    told = spoken(small, "schema")
    assert "items is gone from orders@2; it was float64." in told
    assert "age is text in orders@2; it was float64." in told
    assert "orders got version 2" in told
    assert small.alerts()["schema"].severity == "critical"
    small.write(amount=rows[:, 0], age=[str(one) for one in rows[:, 1]], more=rows[:, 0])
    small.window(rows_of(5))
    assert "orders got versions 2 to 3 (" in spoken(small, "schema")


def test_a_dataset_with_moments_gives_each_hour_its_own_reference(small: Watched):
    hours = np.tile(np.arange(24), 400)
    rows = rows_of(1, len(hours))
    rows[:, 0] += np.where(hours < 12, 80, 0)
    small.write(rows, at=pa.array(hours * 3_600_000_000, pa.timestamp("us", "UTC")))
    small.apply(replace(DRAWN, season="hour", time="at"))

    def now(seed: int) -> np.ndarray:
        return rows_of(seed, amount=80 if (int(small.now) % DAY) // 3_600_000_000 < 12 else 0)

    assert (int(small.now) % DAY) // 3_600_000_000 < 12
    small.traffic(now(seed) for seed in range(2000, 2003))
    small.clock.forward(DAY // 2)
    small.traffic(now(seed) for seed in range(2003, 2006))
    assert small.alerts("all") == {}
    small.traffic(rows_of(seed, amount=80) for seed in range(3000, 3002))
    assert "amount" in {one.column for one in small.alerts()["drift"].columns}
