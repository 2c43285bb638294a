"""Reading ahead: the next batches are made in a thread while the last ones are written, so that two cores are at work."""

import queue
import threading
from collections.abc import Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")
_WAITING: Final = 2
_PATIENCE: Final = 0.1


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, of which a few are made before they are asked for. Raises what making them raises. Whoever stops early
    closes it, or lets it go: then no more are made."""
    found: queue.Queue[tuple[str, Any]] = queue.Queue(_WAITING)
    stopped = threading.Event()

    def put(kind: str, one: Any) -> bool:
        while not stopped.is_set():
            try:
                found.put((kind, one), timeout=_PATIENCE)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:  # noqa: BLE001 - raised where they are asked for
            put("error", error)

    thread = threading.Thread(target=make, name="reading ahead", daemon=True)
    thread.start()
    try:
        while (got := found.get())[0] == "item":
            yield got[1]
        if got[0] == "error":
            raise got[1]
    finally:
        stopped.set()
        thread.join()
