"""Running a serving plane: of this home, or of a host that joined a platform elsewhere."""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import uvloop

from falaj.app.home import Home
from falaj.app.planes import listen_for_predictions, plane_of
from falaj.app.settings import ServingSettings
from falaj.base.clock import SystemClock
from falaj.base.errors import Invalid
from falaj.serving.plane.joining import Control, read_join
from falaj.serving.plane.places import PlaneHome
from falaj.serving.plane.supervisor import PlaneSettings, Supervisor, held


def run(
    home: Home,
    settings: ServingSettings,
    *,
    join: Path | None,
    directory: Path | None,
    control: Callable[[Path], Control],
    ready: Callable[[str], None],
) -> None:
    """`control` makes the way to the control plane from the file that says where it is."""
    os.umask(0o077)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    place = plane_of(home) if directory is None else _place(directory)
    place.prepare()
    with held(place):
        if join is not None:
            read_join(join)
            shutil.copyfile(join, place.join)
        known = read_join(place.join)
        if bool(settings.certificate) != bool(settings.private_key):
            raise Invalid("[serving] certificate and private_key belong together: give both or neither.")
        listener = listen_for_predictions(settings.host, settings.port)
        plane = PlaneSettings(
            host=settings.host,
            port=settings.port,
            url=settings.url,
            least_workers=settings.workers or 1,
            most_workers=settings.workers,
            certificate=settings.certificate,
            private_key=settings.private_key,
            body_bytes=settings.body_bytes,
            memory_bytes=settings.memory_mb << 20,
            threads=settings.threads,
            hang_seconds=settings.hang_seconds,
        )

        async def supervise() -> None:
            await Supervisor(place, known, plane, control(place.join), listener, SystemClock()).run(ready)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(supervise())


def _place(directory: Path) -> PlaneHome:
    return PlaneHome(path=directory, keys=directory.with_name(directory.name + ".keys"))
