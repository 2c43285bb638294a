"""What is asked of a source. Apart from what answers it, so that asking needs no data library."""

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tables.forms import Form


@value
class Asked:
    """`table` or `query` of a database; `at` is the version or snapshot of a lake's table; `endpoint` that of an S3 service
    which is not AWS. Of `form`, `types` and `time_zone` hold for every source, the rest for files of text."""

    table: str = ""
    query: str = ""
    at: str = ""
    endpoint: str = ""
    form: Form = Form()


def one_of_table_and_query(asked: Asked) -> None:
    if bool(asked.table) == bool(asked.query):
        raise Invalid("Say which rows of the database: a table (--table), or a query (--query), and not both.")


def refuse(asked: Asked, of: str, **wrong: str) -> None:
    """Raises `Invalid` for what was asked of a source that knows nothing of it."""
    for name, option in wrong.items():
        if getattr(asked, name):
            raise Invalid(f"{option} means nothing for {of}.")


def refuse_types(asked: Asked, of: str) -> None:
    if asked.form.types:
        raise Invalid(f"--type means nothing for {of}, whose columns have types: convert them there, or after the import.")
