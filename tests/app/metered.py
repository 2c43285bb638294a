"""A platform with one operation more, whose calls are telemetry: `python metered.py HOME` serves it as `falaj up` would."""

import os
import sys
from pathlib import Path

from sqlalchemy import Column, String, Table, insert

from falaj.app.home import Home, locked, write_private
from falaj.app.platform import open_platform
from falaj.app.server import listen, serve
from falaj.app.settings import read_settings
from falaj.base.clock import SystemClock
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, Nothing, value
from falaj.database.binding import bind
from falaj.database.work import Context, metadata

readings = Table("test_readings", metadata, Column("name", String(100), primary_key=True))


@value
class Reading(Message):
    project: Name
    name: Name


READ_METER = Operation(
    name="meter.read",
    summary="Take one reading in",
    method="POST",
    path="projects/{project}/readings",
    request=Reading,
    result=Nothing,
    permission=Permission(name="meter.read", group=Group.WRITE),
    scope=Scope.PROJECT,
    record=Record.TELEMETRY,
)


def read_meter(context: Context, request: Reading) -> Nothing:
    context.work.execute(insert(readings).values(name=request.name))
    return Nothing()


def main(path: Path) -> None:
    home, clock = Home(path=path), SystemClock()
    home.prepare()
    with (
        locked(home),
        open_platform(home, read_settings(home.settings), clock=clock, bindings=[bind(READ_METER, read_meter)]) as it,
    ):
        it.database.write(lambda work: readings.create(work.connection, checkfirst=True))
        listener = listen("127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        write_private(home.credentials, {"url": url, "token": it.owner_token()})
        write_private(home.server, {"pid": os.getpid(), "url": url})
        app = it.application(hosts={"127.0.0.1"}, tls=False)
        serve(app, listener, certificate="", private_key="", ready=it.start_loops)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
