"""The room's tables of pipelines. All that is called JSON is text."""

from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, Row, String, Table, Text, UniqueConstraint

from falaj.database.work import metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

# `taken` is the project and the name while the pipeline is there, so that a name can be given again once it is deleted.
pipelines: Final = Table(
    "lifecycle_pipelines",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("name", String(100), nullable=False),
    Column("taken", String(140), unique=True),
    Column("version", Integer, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("changed_by", String(32), nullable=False),
    Index("lifecycle_pipelines_of_project", "project", "name"),
)
# `definition` and `behind` are JSON; the latter is who wrote it, and everybody who could have used the token that they did it
# with. What a run began with stays.
versions: Final = Table(
    "lifecycle_versions",
    metadata,
    Column("pipeline", String(32), ForeignKey("lifecycle_pipelines.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("definition", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("behind", Text, nullable=False),
)
# `parameters`, `options` and `result` are JSON. `changed` counts: whoever decides about a run writes only if it is as they saw
# it. `token` is what it acts with, and `stopping` says that somebody wants it to end. `behind` is JSON: everybody who started
# it or went on with it, and who could have used the tokens that they did it with. `kept` is how many characters it was given
# and sent, and its steps keep.
runs: Final = Table(
    "lifecycle_runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("pipeline", String(32), ForeignKey("lifecycle_pipelines.id"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("state", String(10), nullable=False),
    Column("parameters", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("trigger", String(100), nullable=False),
    Column("token", String(32), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("stopping", Boolean, nullable=False),
    Column("changed", Integer, nullable=False),
    Column("kept", BigInteger, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("started_by", String(32), nullable=False),
    Column("behind", Text, nullable=False),
    Column("ended", BigInteger),
    Index("lifecycle_runs_of_project", "project", "id"),
    Index("lifecycle_runs_of_pipeline", "pipeline", "id"),
    Index("lifecycle_runs_live", "ended", "id"),
)
# `item` is -1 but in a fan-out. `arguments`, `called`, `told` and `result` are JSON: what it is given, what its operation
# answered before it is asked on, what its job says, what it hands on. `digest` is by what that is found again; `made` names a
# version that came out. `due` is when it is to be looked at again.
steps: Final = Table(
    "lifecycle_steps",
    metadata,
    Column("run", String(32), ForeignKey("lifecycle_runs.id"), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("item", Integer, primary_key=True),
    Column("project", String(32), nullable=False),
    Column("state", String(10), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("called", Text, nullable=False),
    Column("told", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("job", String(32), nullable=False),
    Column("cached", String(32), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("made", String(300), nullable=False),
    Column("begun", BigInteger),
    Column("ended", BigInteger),
    Column("due", BigInteger, nullable=False),
    Index("lifecycle_steps_cached", "project", "digest"),
    Index("lifecycle_steps_made", "project", "made"),
)
# What runs were sent and wait for; `content` is JSON.
events: Final = Table(
    "lifecycle_events",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("run", String(32), ForeignKey("lifecycle_runs.id"), nullable=False),
    Column("name", String(200), nullable=False),
    Column("content", Text, nullable=False),
    Column("sent_by", String(32), nullable=False),
    Index("lifecycle_events_of_run", "run", "id"),
)
# `wish` and `wisher` are JSON: what was asked for, and with whose right. `version` is of the pipeline, as it was then; `seen`
# what was there when it last started something; `next` when a schedule does. `called` is the newest call of a webhook, and
# `content` what it brought, as JSON.
triggers: Final = Table(
    "lifecycle_triggers",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("pipeline", String(32), ForeignKey("lifecycle_pipelines.id"), nullable=False),
    Column("name", String(100), nullable=False),
    Column("wish", Text, nullable=False),
    Column("wisher", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("zone", String(100), nullable=False),
    Column("set", BigInteger, nullable=False),
    Column("set_by", String(32), nullable=False),
    Column("next", BigInteger),
    Column("called", String(32), nullable=False),
    Column("content", Text, nullable=False),
    Column("seen", String(200), nullable=False),
    Column("waiting", Boolean, nullable=False),
    Column("last_run", String(32), nullable=False),
    Column("last_started", BigInteger, nullable=False),
    Column("words", Text, nullable=False),
    UniqueConstraint("pipeline", "name", name="lifecycle_triggers_name"),
)
