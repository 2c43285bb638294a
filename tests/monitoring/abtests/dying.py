"""A control plane that looks at A/B tests once and dies on the way, as by `kill -9`: run as a process of its own."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from falaj.base.clock import DAY
from falaj.monitoring.abtests import entering, running
from tests.serving.control.platform import Platform


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, where: str) -> None:
    platform = Platform(Path(folder))
    platform.clock.forward(DAY)
    if where == "decided":
        running.enter = die  # type: ignore[assignment,attr-defined]
    elif where == "acted":
        entering.announce = die  # type: ignore[attr-defined]  # the split is changed and on record by then, and nothing committed
    platform.app.monitoring._abtests.step(platform.clock.now())
    die()


if __name__ == "__main__":
    main(*sys.argv[1:])
