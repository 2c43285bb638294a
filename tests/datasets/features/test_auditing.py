"""The skew audit: nothing where what was served is what a training set has, and every planted difference by its name."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import func, select

from falaj.base.caller import Identity
from falaj.base.clock import DAY, HOUR, Moment
from falaj.base.errors import Corrupt, Forbidden, NotFound
from falaj.base.ids import PrincipalId
from falaj.database.work import Context
from falaj.datasets.features import served as served_log
from falaj.datasets.online.views import Given
from falaj.datasets.operations import classes, features, tidying
from falaj.datasets.store import kept_features
from falaj.governance.projects.operations import SHOW_PROJECT, OneProject
from falaj.governance.roles import Role
from falaj.serving.looked import LookedLog
from falaj.serving.operations.planes import CallReport
from tests.datasets.features.stories import FEATURES, applied, clicks, told
from tests.datasets.features.test_catching_up import append
from tests.datasets.features.test_serving import ALL, got, materialised
from tests.datasets.platform import PROJECT, Platform


def audited(platform: Platform, token: str = "", **fields: Any) -> features.FeatureAudit:
    return platform.call(features.AUDIT_VIEW, features.AuditView(**{"project": PROJECT, "view": "by-user", **fields}), token)


def served(platform: Platform, **fields: Any) -> None:
    """A view of everything, materialised, and logged whenever it is asked."""
    told(platform)
    platform.clock.forward(50 * HOUR)
    applied(platform, **{"features": ALL, "log": 1.0, **fields})
    materialised(platform)


def plant(platform: Platform, user: int, change: Any) -> None:
    """Another value in the store than was materialised, sealed as if it had been."""
    online = next(iter(platform.room._features._online._views.values()))
    before = online.get([user], now=platform.clock.now())
    assert before is not None
    values = change(list(before.values))
    online.store.drop(online._keys.view)
    online.write([Given([user], values, before.event, before.known)], of=before.of)
    online.complete(before.of)


def test_what_was_served_right_leaves_nothing_to_tell(platform: Platform) -> None:
    served(platform)
    got(platform, 1, 2, 3, {"user": None})
    got(platform, 1, of=("by-user:clicks",))
    found = audited(platform)
    assert (found.calls, found.entities, found.causes, found.differences) == (2, 4, {}, ())
    (leaf,) = platform.leaves("feature.audit")
    assert leaf["facts"]["view"]


def test_an_altered_value_is_named(small: Platform) -> None:
    served(small, features=FEATURES)
    plant(small, 1, lambda values: [values[0], values[1] + 1, *values[2:]])
    got(small, 1)
    (one,) = audited(small).differences
    assert (one.cause, one.entity, one.feature, one.served, one.offline) == ("wrong", {"user": 1}, "clicks", 3, 2)
    assert one.source == "clicks@1"


def test_what_was_known_and_not_materialised_is_stale(small: Platform) -> None:
    served(small, features=FEATURES)
    append(small, 1, 49, 7.0)
    got(small, 1, 2)
    found = audited(small)
    assert found.causes == {"stale": 4}
    assert {one.feature: (one.served, one.offline) for one in found.differences} == {
        "last_amount": (2.5, 7.0),
        "clicks": (2, 3),
        "spent": (4.0, 11.0),
        "recent": (0, 1),
    }
    materialised(small)
    asked = small.clock.now()
    got(small, 1, 2)
    assert audited(small, since=asked).causes == {}


def test_what_was_rewritten_since_is_told_apart_from_what_was_wrong_then(small: Platform) -> None:
    served(small, features=FEATURES[1:2])
    got(small, 1, 2)
    small.commit(small.open("delete", "clicks", where="user = 2"), 0)
    (one,) = audited(small).differences
    assert (one.cause, one.entity, one.served, one.offline) == ("changed", {"user": 2}, 2, 0)
    for _ in range(2):
        small.write(clicks(), dataset="clicks", mode="overwrite")
    small.call(tidying.PRUNE_VERSIONS, tidying.PruneVersions(project=PROJECT, dataset="clicks", keep=1))
    assert audited(small).causes == {}  # rewritten as it was
    small.commit(small.open("delete", "clicks", where="user = 1"), 0)
    assert audited(small).causes == {"unknown": 1}


def test_what_is_too_old_when_it_is_asked_for_is_no_difference(small: Platform) -> None:
    served(small, time_to_live=30 * HOUR)
    small.clock.forward(60 * HOUR)
    got(small, 1, 2, 3)
    assert audited(small).causes == {}


def test_values_and_entities_that_somebody_may_not_see_are_not_told_him(small: Platform) -> None:
    served(small, features=FEATURES)
    append(small, 1, 49, 7.0)
    got(small, 1)
    hidden = tuple(classes.Classified(column=column, kind="sensitive") for column in ("amount", "user"))
    small.call(classes.CLASSIFY_COLUMNS, classes.ClassifyColumns(project=PROJECT, dataset="clicks", columns=hidden))
    viewer = small.person("amal", Role.VIEWER)
    told_him = {one.feature: one for one in audited(small, viewer).differences}
    assert all(one.entity == {"user": None} for one in told_him.values())
    assert (told_him["spent"].masked, told_him["spent"].served, told_him["spent"].offline) == (True, None, None)
    assert (told_him["clicks"].masked, told_him["clicks"].served) == (False, 2)
    assert audited(small).differences[0].entity == {"user": 1}


def test_another_project_audits_nothing(small: Platform) -> None:
    served(small)
    small.project("other")
    stranger = small.person("zayd", Role.SCIENTIST, project="other")
    with pytest.raises((Forbidden, NotFound)):
        audited(small, stranger)
    with pytest.raises(NotFound, match="no feature view 'by-user' here"):
        audited(small, stranger, project="other")


def logged(platform: Platform) -> list[Any]:
    return platform.database.read(lambda work: list(work.execute(kept_features.served.select()).all()))


def test_what_is_logged_is_a_share_sealed_and_forgotten_in_time(small: Platform) -> None:
    served(small, log=0.0)
    got(small, *range(1000))
    assert not logged(small)
    assert (applied(small, features=ALL, log=0.25).version, applied(small, features=ALL, log=0.25).log) == (1, 0.25)
    got(small, *range(1000))
    (row,) = logged(small)
    assert 150 < row.rows < 350
    assert audited(small).entities == row.rows
    assert b"last_amount" not in row.sealed
    changed = bytes([row.sealed[0] ^ 1]) + row.sealed[1:]
    small.database.write(lambda work: work.execute(kept_features.served.update().values(sealed=changed)))
    with pytest.raises(Corrupt, match="was changed where it is kept"):
        audited(small)
    small.clock.forward(29 * DAY)
    small.room.step(small.clock.now())
    assert logged(small)
    small.clock.forward(DAY)
    small.room.step(small.clock.now())
    assert not logged(small)


def test_what_a_plane_says_it_looked_up_is_kept_only_where_it_can_be(small: Platform) -> None:
    """At the edge to planes: they are hosts of their own, and may say anything."""
    served(small, features=FEATURES)
    found = got(small, 1)  # which is logged, too
    now = small.clock.now()
    values = [4612811918334230528, 2, 4616189618054758400, 0]  # 2.5 and 4.0 by their bits
    right = {
        "view": "by-user@1",
        "features": [one.name for one in FEATURES],
        "rows": [[int(found.views[0].moment), 1, *values]],
    }
    kept = looked(small, {"at": int(now), "views": [right]})
    assert kept == 1
    assert (audited(small).entities, audited(small).causes) == (2, {})
    wrong: list[Any] = [
        None,
        [],
        {"at": "now", "views": [right]},
        {"at": int(now) + HOUR, "views": [right]},
        {"at": 1 << 80, "views": [right]},
        {"at": int(now), "views": [right | {"view": "other@1"}]},
        {"at": int(now), "views": [right | {"view": "by-user@" + "9" * 5000}]},
        {"at": int(now), "views": [right | {"features": ["nothing"] * 4}]},
        {"at": int(now), "views": [right | {"rows": [[0, "one", *values]]}]},
        {"at": int(now), "views": [right | {"rows": [[0, 1, "two", *values[1:]]]}]},
        {"at": int(now), "views": [right | {"rows": [[0, 1 << 70, *values]]}]},
        {"at": int(now), "views": [right | {"rows": [[1 << 70, 1, *values]]}]},
        {"at": int(now), "views": [right | {"rows": [[0, 1]]}]},
        {"at": int(now), "views": [right | {"rows": 7}]},
    ]
    for one in wrong:
        assert not looked(small, one), one
    assert (audited(small).entities, audited(small).causes) == (2, {})


def looked(platform: Platform, told: Any) -> int:
    """A plane's report of one call, as the control plane takes it in; how much of it was kept."""
    project = platform.call(SHOW_PROJECT, OneProject(project=PROJECT)).id
    nobody = Identity(principal=PrincipalId(""), kind="process", name="plane", token=None, zone="home")
    log, endpoint = LookedLog(platform.room._features._online._blobs), "e" * 32
    call = CallReport(
        endpoint=endpoint,
        revision=1,
        id="a",
        at=platform.clock.now(),
        caller="",
        status="ok",
        ms=1.0,
        inputs="{}",
        outputs="{}",
        looked=json.dumps(told),
    )

    def sealed(work: Any) -> list[dict[str, Any]]:
        context = Context(work=work, identity=nobody, project=None, now=platform.clock.now(), request_id="", facts={})
        return log.sealed(context, [call], {endpoint: SimpleNamespace(project=project)})  # type: ignore[dict-item]

    rows = platform.database.read(sealed)
    platform.database.write(lambda work: log.keep(work, rows))
    return len(rows)


def test_whoever_calls_an_endpoint_does_not_choose_what_is_audited_by_the_id_of_the_call(small: Platform) -> None:
    served(small, features=FEATURES, log=0.5)
    kept = []
    for _ in range(60):
        small.clock.forward(1)
        rows = [[None, 9, None, 0, None, 0]]
        one = {"view": "by-user@1", "features": [feature.name for feature in FEATURES], "rows": rows}
        kept.append(looked(small, {"at": int(small.clock.now()), "views": [one]}))
    assert 10 < sum(kept) < 50


def test_an_audit_looks_at_no_more_than_it_is_asked_to(small: Platform) -> None:
    served(small, features=FEATURES)
    append(small, 1, 49, 7.0)
    for _ in range(3):
        got(small, 1, 2)
    found = audited(small, limit=3, most=1)
    assert (found.entities, found.more, len(found.differences), found.causes) == (3, True, 1, {"stale": 8})
    assert not audited(small, until=Moment(small.clock.now() - HOUR)).entities


def test_what_is_logged_of_a_call_and_read_of_it_at_once_is_bounded(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_log, "LARGEST", 4000)
    served(platform, features=FEATURES)
    pages: list[int] = []
    page = kept_features.logged

    def counted(*given: Any) -> Any:
        found = page(*given)
        pages.append(len(found))
        return found

    monkeypatch.setattr(kept_features, "logged", counted)
    for _ in range(30):
        got(platform, *[1] * 100)
    sizes = platform.database.read(
        lambda work: work.execute(select(func.length(kept_features.served.c.sealed))).scalars().all()
    )
    assert max(sizes) < 4100
    found = audited(platform, limit=100_000)
    assert (found.calls, found.more, found.causes, pages) == (30, False, {}, [20, 10, 0])
    assert 300 < found.entities < 3000  # as much as fits
    assert (audited(platform, limit=10).calls, audited(platform, limit=10).more) == (1, True)


def test_what_is_logged_of_a_view_is_bounded_and_the_oldest_goes(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("falaj.datasets.features.deleting.MOST_LOGGED", 3)
    served(platform, features=FEATURES)
    for user in (1, 2, 1, 2, 2):
        platform.clock.forward(HOUR)
        got(platform, user)
    since = platform.clock.now()
    platform.room.step(since)
    assert audited(platform).calls == 3
    assert audited(platform, until=Moment(since - 3 * HOUR)).calls == 0
