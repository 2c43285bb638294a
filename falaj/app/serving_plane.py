"""Running a serving plane: of this home, or of a host that joined a platform elsewhere."""

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvloop

from falaj.app.addresses import is_loopback
from falaj.app.home import Home
from falaj.app.planes import listen_for_predictions, plane_of
from falaj.app.settings import FeatureSettings, ServingSettings
from falaj.base.clock import SystemClock
from falaj.base.errors import Forbidden, Invalid
from falaj.base.files import write_durably
from falaj.governance.profiles import PROFILES
from falaj.serving.plane.joining import Control, read_join
from falaj.serving.plane.keeping import StateFile
from falaj.serving.plane.places import PlaneHome
from falaj.serving.plane.supervisor import PlaneSettings, Supervisor, held

# Who watches predictions, in every worker: `module:maker`, called with a folder of the plane's own. They are named here and not
# imported by serving, whose rooms above they may belong to.
TAPS: Final = ("falaj.monitoring.plane.tap:watch_tap",)


def run(
    home: Home,
    settings: ServingSettings,
    *,
    features: FeatureSettings,
    profile: str,
    join: Path | None,
    directory: Path | None,
    control: Callable[[Path], Control],
    ready: Callable[[str], None],
) -> None:
    """`control` makes the way to the control plane from the file that says where it is."""
    os.umask(0o077)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # never ahead of a worker, who may share a core with it
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    place = plane_of(home) if directory is None else _place(directory)
    place.prepare()
    with held(place):
        if join is not None:
            read_join(join)
            shutil.copyfile(join, place.join)
        known = read_join(place.join)
        if not known.url and StateFile(place.state, known.trusted(), place.key()).read() is None:
            raise Invalid(f"{directory} has neither a platform to ask nor a state to serve by; export the bundle again.")
        check_exposure(settings, profile)
        listener = listen_for_predictions(settings.host, settings.port, last=_last_port(place))
        write_durably(place.port, str(listener.getsockname()[1]).encode())
        plane = PlaneSettings(
            url=settings.url,
            least_workers=settings.workers or 1,
            most_workers=settings.workers,
            calls_per_worker=settings.calls_per_worker,
            certificate=settings.certificate,
            private_key=settings.private_key,
            body_bytes=settings.body_bytes,
            memory_bytes=settings.memory_mb << 20,
            threads=settings.threads,
            hang_seconds=settings.hang_seconds,
            taps=TAPS,
            python=(settings.converter or sys.executable) if settings.python else "",
            # The folder is the platform's own: only the plane of its home is sure to see it.
            features_folder=str(home.online) if directory is None and not features.redis else "",
            features_redis=features.redis,
        )

        async def supervise() -> None:
            way = control(place.join) if known.url else None
            await Supervisor(place, known, plane, way, listener, SystemClock()).run(ready)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(supervise())


def check_exposure(settings: ServingSettings, profile: str) -> None:
    if bool(settings.certificate) != bool(settings.private_key):
        raise Invalid("[serving] certificate and private_key belong together: give both or neither.")
    if PROFILES[profile].tls_required and not (settings.certificate or is_loopback(settings.host)):
        raise Forbidden(
            f"Profile {profile} answers other machines only under TLS: set [serving] certificate and private_key.",
            rule="profile.tls",
        )


def _last_port(place: PlaneHome) -> int:
    try:
        return int(place.port.read_text())
    except (OSError, ValueError):
        return 0


def _place(directory: Path) -> PlaneHome:
    """An edge bundle has its key inside, unless somebody took it out."""
    directory = directory.absolute()
    beside, inside = directory.with_name(directory.name + ".keys"), directory / "keys"
    return PlaneHome(path=directory, keys=inside if inside.exists() and not beside.exists() else beside)
