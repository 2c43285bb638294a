"""A program that reads a table of a Postgres and writes it to its output as an Arrow stream, for who may not do so himself.

What opens the database comes in by the input, so that nobody sees it among the processes. What went wrong is said in JSON on
the error stream, without a secret.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from falaj.base.errors import FalajError
from falaj.tables.connectors import postgres
from falaj.tables.connectors.addresses import parsed
from falaj.tables.connectors.asking import Asked
from falaj.tables.forms import Form


def url_of(told: Mapping[str, Any]) -> str:
    who = quote(told["user"], safe="")
    who += f":{quote(told['secret'], safe='')}" if told["secret"] else ""
    at = f"{who}@" if who else ""
    database = quote(told["database"], safe="")
    if told["host"].startswith("/"):
        return f"postgresql://{at}/{database}?host={quote(told['host'], safe='/')}&port={told['port']}"
    host = f"[{told['host'].strip('[]')}]" if ":" in told["host"] else told["host"]
    return f"postgresql://{at}{host}:{told['port']}/{database}?sslmode={told['tls']}"


def main() -> int:
    told = json.load(sys.stdin)
    try:
        asked = Asked(table=told["table"], form=Form(types=told["types"]))
        source = postgres.opened(parsed(url_of(told)), asked, ordered=True)
        with pa.ipc.new_stream(sys.stdout.buffer, source.schema) as stream:
            for batch in source.batches:
                stream.write_batch(batch)
        sys.stdout.buffer.flush()
    except FalajError as error:
        print(json.dumps({"error": type(error).__name__, "says": str(error)[:350]}, ensure_ascii=False), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
