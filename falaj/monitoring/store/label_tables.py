"""Tables of labels: where logged predictions lie, what was said of them, and where the joined rows are.

What somebody could be known by, the ids of predictions and the keys of entities, is here as a digest alone: made with a key of
the endpoint that lies sealed with its project's data.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from falaj.database.work import metadata

# One for an endpoint that gets labels. `key` is the blob of what digests are made with. `places` counts the batches of joined
# rows, `judged` is the last of them whose losses were looked at; the other counters are of labels that came. `names` are
# those of their values, as JSON. Logged calls are findable that lie in batches with ids before `gathered`.
labellings: Final = Table(
    "monitoring_labellings",
    metadata,
    Column("endpoint", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("key", String(32), nullable=False),
    Column("places", BigInteger, nullable=False),
    Column("judged", BigInteger, nullable=False),
    Column("taken", BigInteger, nullable=False),
    Column("repeated", BigInteger, nullable=False),
    Column("refused", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    Column("names", Text, nullable=False),
    Column("gathered", String(32), nullable=False),
)
# Batches of logged calls whose predictions can be found.
indexed: Final = Table(
    "monitoring_indexed",
    metadata,
    Column("batch", String(32), primary_key=True),
    Column("endpoint", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Index("monitoring_indexed_of_endpoint", "endpoint", "batch"),
)
# Where a prediction is: row `row` of call number `place` of a batch; `key` is a digest of the call's id
# with the row, or of its entity; `caller` is a digest too: ids are the callers' own, and two may use the same one.
predictions: Final = Table(
    "monitoring_predictions",
    metadata,
    Column("endpoint", String(32), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("batch", String(32), primary_key=True),
    Column("place", Integer, primary_key=True),
    Column("row", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("caller", String(64), nullable=False),
    Index("monitoring_predictions_of_batch", "batch"),
    Index("monitoring_predictions_by_caller", "endpoint", "key", "caller"),
    Index("monitoring_predictions_by_time", "endpoint", "key", "at"),
)
# What was said, as digests of both sides: what a label is about, and what it says of that.
labels: Final = Table(
    "monitoring_labels",
    metadata,
    Column("endpoint", String(32), primary_key=True),
    Column("key", String(64), primary_key=True),
    Column("said", String(64), nullable=False),
    Column("batch", String(32), nullable=False),
    Index("monitoring_labels_of_batch", "batch"),
)
# Predictions joined with their labels, sealed in `blob`. `place` counts the batches of an endpoint in the order in which they
# came; `first` and `last` are when their predictions were made.
label_batches: Final = Table(
    "monitoring_label_batches",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("endpoint", String(32), nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("blob", String(32), nullable=False),
    Index("monitoring_label_batches_in_order", "endpoint", "place", unique=True),
    Index("monitoring_label_batches_by_time", "endpoint", "last"),
    Index("monitoring_label_batches_by_age", "at"),
    Index("monitoring_label_batches_by_size", "endpoint", "rows", "place"),
)
# What is known of the stream of a revision's losses; `standing` is JSON, of numbers alone. `due` is when people are told anew
# that they rose, null while they did not.
losses: Final = Table(
    "monitoring_losses",
    metadata,
    Column("endpoint", String(32), ForeignKey("monitoring_labellings.endpoint"), primary_key=True),
    Column("revision", BigInteger, primary_key=True),
    Column("standing", Text, nullable=False),
    Column("due", BigInteger),
    Index("monitoring_losses_due", "due"),
)
