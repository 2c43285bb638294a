"""Serving's tables. An endpoint that is deleted keeps its row, because keys and history speak of it."""

from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from falaj.database.work import metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

# `arms`, `steps` and `options` are JSON. `back_to` is where a rollback would go. A canary that grows by itself has its revision
# in `canary`, began at `growing`, and takes step `step` at `next_step`. `serial` is that of the state that says all this.
endpoints: Final = Table(
    "serving_endpoints",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("name", String(100), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("arms", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("back_to", Integer, nullable=False),
    Column("steps", Text, nullable=False),
    Column("step", Integer, nullable=False),
    Column("next_step", BigInteger),
    Column("canary", Integer, nullable=False),
    Column("growing", BigInteger),
    Column("last_revision", Integer, nullable=False),
    Column("last_change", BigInteger, nullable=False),
    Column("serial", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("deleted", BigInteger),
    Index("serving_endpoints_by_zone", "zone"),
)
_LIVE: Final = endpoints.c.deleted.is_(None)
Index("serving_endpoints_name", endpoints.c.project, endpoints.c.name, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)
Index("serving_endpoints_growing", endpoints.c.next_step, sqlite_where=_LIVE, postgresql_where=_LIVE)

# `used` are those that an arm or the way back needs: they alone stand in the state. `bundle` signs the list of files. Where it
# is a variant of its version, `variant` is how that is called, `certificate` the digest of the one that held when it was
# deployed (empty where none did), `settings` (JSON) how it is run, `latency_ms` how fast it was certified on hosts of the kind
# `host`, which is `host_shown` for people, and `latency_limit_ms` what 99 of 100 rows had to keep to there (0 where nothing was
# asked for); `max_drop` and `max_slice_drop` are what the certificate allows to be lost, and `truth_known` is whether it was
# judged by what is true.
revisions: Final = Table(
    "serving_revisions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("endpoint", String(32), ForeignKey("serving_endpoints.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("model", String(32), nullable=False),
    Column("model_name", String(255), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("version_id", String(32), nullable=False),
    Column("runtime", String(50), nullable=False),
    Column("file", Text, nullable=False),
    Column("columns", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("bundle", Text, nullable=False),
    Column("converted", Text, nullable=False),
    Column("quarantined", Text, nullable=False),
    Column("used", Boolean, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("variant", String(100), nullable=False, server_default=text("''")),
    Column("variant_id", String(32), nullable=False, server_default=text("''")),
    Column("certificate", String(64), nullable=False, server_default=text("''")),
    Column("settings", Text, nullable=False, server_default="{}"),
    Column("host", Text, nullable=False, server_default=text("''")),
    Column("host_shown", Text, nullable=False, server_default=text("''")),
    Column("latency_ms", Double, nullable=False, server_default="0"),
    Column("latency_limit_ms", Double, nullable=False, server_default="0"),
    Column("max_drop", Double, nullable=False, server_default="0"),
    Column("max_slice_drop", Double, nullable=False, server_default="0"),
    Column("truth_known", Boolean, nullable=False, server_default=text("true")),
    UniqueConstraint("endpoint", "number", name="serving_revisions_number"),
    Index("serving_revisions_used", "endpoint", "used"),
)
revision_files: Final = Table(
    "serving_revision_files",
    metadata,
    Column("revision", String(32), ForeignKey("serving_revisions.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("blob", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
)
# Faster variants that answer in a revision's place while it is overloaded, in order, the first at place 1. Columns are as those
# of a revision; `throughput` is in that of the original. `bundle` signs the files of this rung.
rungs: Final = Table(
    "serving_rungs",
    metadata,
    Column("revision", String(32), ForeignKey("serving_revisions.id"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("variant", String(100), nullable=False),
    Column("variant_id", String(32), nullable=False),
    Column("certificate", String(64), nullable=False),
    Column("runtime", String(50), nullable=False),
    Column("file", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("settings", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("host_shown", Text, nullable=False),
    Column("latency_ms", Double, nullable=False),
    Column("latency_limit_ms", Double, nullable=False),
    Column("max_drop", Double, nullable=False),
    Column("max_slice_drop", Double, nullable=False),
    Column("truth_known", Boolean, nullable=False),
    Column("throughput", Double, nullable=False),
    Column("bundle", Text, nullable=False),
)
# Their names are prefixed, so that they are different from those of the revision's own files.
rung_files: Final = Table(
    "serving_rung_files",
    metadata,
    Column("revision", String(32), ForeignKey("serving_revisions.id"), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("blob", String(32), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
)
# What a revision looks up before it predicts: versions of feature views, and which of their features (JSON) the model takes.
lookups: Final = Table(
    "serving_lookups",
    metadata,
    Column("revision", String(32), ForeignKey("serving_revisions.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("view", String(32), nullable=False),
    Column("features", Text, nullable=False),
)
# Predictions for a version of a dataset: everything the job needs, decided when it was asked for. `keep`, `columns`, `files`
# and `remarks` are JSON. `made` is the version that came out, 0 before.
batches: Final = Table(
    "serving_batches",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("model_name", String(255), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("version_id", String(32), nullable=False),
    Column("dataset", String(32), nullable=False),
    Column("dataset_name", String(100), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("lineage", Text, nullable=False),
    Column("into_id", String(32), nullable=False),
    Column("into_name", String(100), nullable=False),
    Column("keep", Text, nullable=False),
    Column("append", Boolean, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("runtime", String(50), nullable=False),
    Column("file", Text, nullable=False),
    Column("columns", Text, nullable=False),
    Column("files", Text, nullable=False),
    Column("classified", Boolean, nullable=False),
    Column("remarks", Text, nullable=False),
    Column("state", String(10), nullable=False),
    Column("made", BigInteger, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Index("serving_batches_by_age", "created"),
)
# `by` is empty where the platform decided.
changes: Final = Table(
    "serving_changes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("endpoint", String(32), ForeignKey("serving_endpoints.id"), nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("kind", String(10), nullable=False),
    Column("before", Text, nullable=False),
    Column("arms", Text, nullable=False),
    Column("by", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    UniqueConstraint("endpoint", "place", name="serving_changes_place"),
)
# The state of each zone: its serial, what it was drawn from besides this room's tables (`watched`), and what it came to. An
# empty `fingerprint` is one that nobody has computed since the serial moved.
zones: Final = Table(
    "serving_zones",
    metadata,
    Column("zone", String(100), primary_key=True),
    Column("serial", BigInteger, nullable=False),
    Column("watched", String(200), nullable=False),
    Column("fingerprint", String(64), nullable=False),
)
# `runs` is JSON: the latest runs of the plane, with the number of the last report of each, and, of the run that reported last,
# how much the plane had to do then.
planes: Final = Table(
    "serving_planes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("principal", String(32), nullable=False),
    Column("name", String(100), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("url", String(500), nullable=False),
    Column("certificate", Text, nullable=False),
    Column("version", String(100), nullable=False),
    Column("workers", BigInteger, nullable=False),
    Column("serial", BigInteger, nullable=False),
    Column("problems", Text, nullable=False),
    Column("runs", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("heard", BigInteger),
    UniqueConstraint("name", name="serving_planes_name"),
    UniqueConstraint("principal", name="serving_planes_principal"),
    Index("serving_planes_by_zone", "zone"),
)
# How each revision is on each plane, as that said last. `rungs` is JSON: of each form that it can answer in, its own first,
# what it did since the plane has it.
instances: Final = Table(
    "serving_instances",
    metadata,
    Column("plane", String(32), ForeignKey("serving_planes.id"), primary_key=True),
    Column("endpoint", String(32), primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("ready", Boolean, nullable=False),
    Column("problem", Text, nullable=False),
    Column("quarantined", Boolean, nullable=False),
    Column("cold_start_ms", Double, nullable=False),
    Column("batch_size", BigInteger, nullable=False),
    Column("rungs", Text, nullable=False, server_default="[]"),
    Index("serving_instances_by_endpoint", "endpoint"),
)
# What a revision did on one plane, in spans of a few seconds that are kept for an hour and in minutes kept for a month. Apart
# by plane, so that two reports never write the same row. What it did for callers who chose it is under the span's negative.
windows: Final = Table(
    "serving_windows",
    metadata,
    Column("endpoint", String(32), primary_key=True),
    Column("span", Integer, primary_key=True),
    Column("at", BigInteger, primary_key=True),
    Column("revision", Integer, primary_key=True),
    Column("plane", String(32), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("errors", BigInteger, nullable=False),
    Column("shed", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("batches", BigInteger, nullable=False),
    Column("compared", BigInteger, nullable=False),
    Column("differed", BigInteger, nullable=False),
    Column("unlogged", BigInteger, nullable=False, server_default="0"),
    Column("latencies", Text, nullable=False),
    Index("serving_windows_by_age", "span", "at"),
)
# Sampled calls lie in blobs of the endpoint's zone, a batch for each report that brought some. Batches are put together, within
# an hour: then they share a blob, which is kept for one of them, the `holder`; `first` is where the calls of this one begin.
# `size` is in bytes. A batch is `settled` when its hour was gone through.
logs: Final = Table(
    "serving_logs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("endpoint", String(32), nullable=False),
    Column("blob", String(32), nullable=False),
    Column("calls", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("first", Integer, nullable=False, server_default="0"),
    Column("size", Integer, nullable=False, server_default="0"),
    Column("holder", String(32), nullable=False, server_default=text("''")),
    Column("settled", Boolean, nullable=False, server_default=text("false")),
    Index("serving_logs_of_endpoint", "endpoint", "id"),
    Index("serving_logs_by_age", "at"),
    Index("serving_logs_by_size", "endpoint", "size"),
    Index("serving_logs_by_holder", "holder"),
    Index("serving_logs_to_settle", "settled", "endpoint", "id"),
)
# `endpoints` is JSON: ids, none for all that the project has. `signer` is the key that signed it.
keys: Final = Table(
    "serving_keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("label", String(100), nullable=False),
    Column("endpoints", Text, nullable=False),
    Column("manage", Boolean, nullable=False),
    Column("signer", String(32), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Index("serving_keys_listing", "project", "id"),
    Index("serving_keys_by_end", "expires"),
)
