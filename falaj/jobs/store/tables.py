"""The room's tables. A job's row is its present; attempts, events and usage are its past and are kept."""

from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    literal,
)

from falaj.database.work import metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

# `spec` is JSON, as submitted. `attempt` is the id of the present or last attempt: what any other reports is ignored. `order`
# is what the scheduler needs of a job that waits (JSON), so that a controller that starts anew reads no specs. `wanted` is
# `cancelled` once somebody asked for it. `served` is microseconds of work that need not be done again, and of one that is
# done what it took. `kin` is the same for jobs that are likely to take as long. Once it is there, the controller alone changes
# a row; others leave a word in `jobs_news`.
jobs: Final = Table(
    "jobs_jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("name", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("queue", String(100), nullable=False),
    Column("priority", String(50), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("spec", Text, nullable=False),
    Column("order", Text, nullable=False),
    Column("run", String(32), nullable=False),
    Column("submitted", BigInteger, nullable=False),
    Column("submitted_by", String(32), nullable=False),
    Column("token", String(32), nullable=False),  # the token it was submitted with: a job's own is never wider
    Column("wanted", String(12), nullable=False),
    Column("attempt", String(32), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("retries", Integer, nullable=False),
    Column("failures", Integer, nullable=False),  # that count against its retries
    Column("losses", Integer, nullable=False),  # that were not its own fault
    Column("kin", String(64), nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("cause", String(20), nullable=False),
    Column("code", Integer),
    Column("words", Text, nullable=False),
    Column("served", BigInteger, nullable=False),
    Column("checkpointed", BigInteger),
    Column("progress", Double, nullable=False),
    Index("jobs_jobs_of_project", "project", "submitted"),
    Index("jobs_jobs_by_queue", "queue", "state"),
)
_LIVE: Final = jobs.c.ended.is_(None)
Index("jobs_jobs_live", jobs.c.submitted, sqlite_where=_LIVE, postgresql_where=_LIVE)
_DONE: Final = jobs.c.state == literal("done", literal_execute=True)
Index("jobs_jobs_kin", jobs.c.kin, jobs.c.ended, sqlite_where=_DONE, postgresql_where=_DONE)

# What the controller has not heard of yet: a job that came or is to go or wrote a checkpoint, nodes or queues that changed.
# Written with what it is about, removed with what follows from it.
news: Final = Table(
    "jobs_news",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(12), nullable=False),
    Column("job", String(32), nullable=False),
)

# `state` is planned, started, stopping or ended. `seats` is JSON. `token` is the one its processes carry. `log` is the blob
# that keeps what it wrote: null while its engine still has that, empty where it wrote nothing.
attempts: Final = Table(
    "jobs_attempts",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("job", String(32), nullable=False),
    Column("project", String(32), nullable=False),
    Column("number", Integer, nullable=False),
    Column("engine", String(50), nullable=False),
    Column("state", String(12), nullable=False),
    Column("seats", Text, nullable=False),
    Column("token", String(32), nullable=False),
    Column("planned", BigInteger, nullable=False),
    Column("started", BigInteger),
    Column("ended", BigInteger),
    Column("stop_by", BigInteger),
    Column("stop_for", String(40), nullable=False),  # why it was told to stop: preempted, cancelled, drained, idle, resized
    Column("cause", String(20), nullable=False),
    Column("code", Integer),
    Column("words", Text, nullable=False),
    Column("usage", Text, nullable=False),  # JSON; of one that goes on, as of a while ago
    Column("odd", Text, nullable=False),  # JSON: what stands out about one that goes on, a sentence for each kind of it
    Column("log", String(32)),
    UniqueConstraint("job", "number", name="jobs_attempts_number"),
)
_UNLOGGED: Final = attempts.c.log.is_(None)  # those that go on are among them
Index("jobs_attempts_unlogged", attempts.c.id, sqlite_where=_UNLOGGED, postgresql_where=_UNLOGGED)

events: Final = Table(
    "jobs_events",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("kind", String(30), nullable=False),
    Column("words", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
)

# All queues, cohorts and priority classes as one document per change: the newest holds, the others are their history.
queue_documents: Final = Table(
    "jobs_queue_documents",
    metadata,
    Column("serial", BigInteger, primary_key=True, autoincrement=False),
    Column("document", Text, nullable=False),
    Column("applied", BigInteger, nullable=False),
    Column("applied_by", String(32), nullable=False),
)

nodes: Final = Table(
    "jobs_nodes",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("engine", String(50), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("facts", Text, nullable=False),  # JSON, as the engine says
    Column("cards", Text, nullable=False),  # JSON, what each does, or empty where nobody says
    Column("draining", Boolean, nullable=False),
    Column("stopping", Boolean, nullable=False),  # what runs there is asked to give back
    Column("seen", BigInteger, nullable=False),
    Column("lost", BigInteger),
)

# Engines: since when the controller has not heard of one, and what the control plane of one that runs elsewhere says of it
# (`report`, JSON), for whoever decides; `beats` counts how often it did.
engines: Final = Table(
    "jobs_engines",
    metadata,
    Column("name", String(50), primary_key=True),
    Column("silent_since", BigInteger),
    Column("beats", BigInteger, nullable=False),
    Column("report", Text, nullable=False),
)

# Hosts that a pool asked for, from before its command is run until they are gone. `node` is what the engine calls it, `printed`
# what its command said; `tries` counts failures of the command of its present state, `trouble` says what went wrong last.
pool_hosts: Final = Table(
    "jobs_pool_hosts",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("pool", String(100), nullable=False),
    Column("state", String(12), nullable=False),
    Column("node", String(200), nullable=False),
    Column("printed", String(200), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("not_before", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("trouble", Text, nullable=False),
)

# What hosts of a pool were seen to have (`facts`, JSON), and what they were `declared` to have then: where the two differ, what
# was seen is counted on until somebody declares something else.
pools: Final = Table(
    "jobs_pools",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("declared", Text, nullable=False),
    Column("facts", Text, nullable=False),
)

# One row for jobs and one for pools: which controller may write plans, and how many it wrote. Whoever takes over raises
# `epoch`; a plan of an older one finds no row to count itself in.
controllers: Final = Table(
    "jobs_controllers",
    metadata,
    Column("name", String(20), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("plans", BigInteger, nullable=False),
)

# What attempts that have ended used of each resource, decayed to `at`: what fairness remembers when a controller starts anew.
past_use: Final = Table(
    "jobs_past_use",
    metadata,
    Column("queue", String(100), primary_key=True),
    Column("project", String(32), primary_key=True),
    Column("user", String(32), primary_key=True),
    Column("resource", String(110), primary_key=True),
    Column("amount", Double, nullable=False),
    Column("at", BigInteger, nullable=False),
)

# What each attempt asked for, used and cost on each of its nodes, for ever. `price` is what an hour of that cost then, in
# millionths.
metering: Final = Table(
    "jobs_metering",
    metadata,
    Column("attempt", String(32), primary_key=True),
    Column("node", String(200), primary_key=True),
    Column("job", String(32), nullable=False),
    Column("project", String(32), nullable=False),
    Column("user", String(32), nullable=False),
    Column("queue", String(100), nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger, nullable=False),
    Column("cpu_seconds_asked", Double, nullable=False),
    Column("cpu_seconds", Double, nullable=False),
    Column("memory_mib_seconds_asked", Double, nullable=False),
    Column("memory_mib_seconds", Double, nullable=False),
    Column("gpu_seconds", Double, nullable=False),
    Column("gpu_busy_seconds", Double, nullable=False),
    Column("energy_joules", Double, nullable=False),
    Column("price", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Index("jobs_metering_of_project", "project", "ended"),
    Index("jobs_metering_by_time", "ended"),
)

# How full and how busy, minute by minute: of the platform (`node` empty) and of each node.
utilisation: Final = Table(
    "jobs_utilisation",
    metadata,
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("node", String(200), primary_key=True),
    Column("cpus", Double, nullable=False),
    Column("cpus_held", Double, nullable=False),
    Column("cpus_busy", Double, nullable=False),
    Column("gpus", Double, nullable=False),
    Column("gpus_held", Double, nullable=False),
    Column("gpus_busy", Double, nullable=False),
    Column("waiting", Integer, nullable=False),
)

# What queues and projects (`kind`) held, kept busy and had waiting, minute by minute; nothing for those at rest.
owner_utilisation: Final = Table(
    "jobs_owner_utilisation",
    metadata,
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(10), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("cpus_held", Double, nullable=False),
    Column("cpus_busy", Double, nullable=False),
    Column("gpus_held", Double, nullable=False),
    Column("gpus_busy", Double, nullable=False),
    Column("waiting", Integer, nullable=False),
)

# What each card that was held or did something did, minute by minute.
card_utilisation: Final = Table(
    "jobs_card_utilisation",
    metadata,
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("node", String(200), primary_key=True),
    Column("card", Integer, primary_key=True, autoincrement=False),
    Column("model", String(100), nullable=False),
    Column("held", Double, nullable=False),
    Column("busy", Double, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("memory_used_mib", BigInteger, nullable=False),
)

# What a job used over its life, a point now and then.
samples: Final = Table(
    "jobs_samples",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("cpus", Double, nullable=False),
    Column("memory_mib", BigInteger, nullable=False),
    Column("gpu_busy", Double, nullable=False),
    Column("gpu_memory_mib", BigInteger, nullable=False),
)

# A source is a blob of the project, named by its digest.
sources: Final = Table(
    "jobs_sources",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("blob", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("files", Integer, nullable=False),
    Column("created", BigInteger, nullable=False),
)

# `sealed` under a key of its own, which is `wrapped` under version `ring_version` of the project's; both are bound to the
# project's id and the name.
secrets: Final = Table(
    "jobs_secrets",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("sealed", LargeBinary, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("ring_version", Integer, nullable=False),
    Column("set", BigInteger, nullable=False),
    Column("set_by", String(32), nullable=False),
)
