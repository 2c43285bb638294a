"""How the tasks of one try find each other before their framework can: all come to the first one, prove that they are of this
try, say something, and hear what all said. What is said is no secret; who says it is proved, both ways, by what all know."""

import contextlib
import hashlib
import hmac
import json
import math
import queue
import secrets
import socket
import threading
import time
from typing import Any, Final, NamedTuple

from falaj.training.launchers.starting.failures import Failed
from falaj.training.launchers.starting.seats import Seat, secret_for

_PATIENCE: Final = 300.0  # seconds for all to come: environments are made at different speeds
_MANNERS: Final = 10.0  # seconds for who has come to say who they are
_LOOKS: Final = 0.1  # seconds
_MOST_STRANGERS: Final = 256  # at once
_LONGEST: Final = 1 << 20
_GARBAGE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)  # of what is none of our words


class _Guest(NamedTuple):
    way: socket.socket
    host: str
    rank: int
    word: Any


def not_private(name: str) -> str:
    return (
        f"{name} does not encrypt what its processes say to each other, and these are on several hosts. Ask for "
        "--topology host, or have [jobs] private_network say that the network between the hosts is private."
    )


def addresses(seat: Seat, port: int) -> list[str]:
    """`host:port` of each task in order of ranks, where each says its own port."""
    return [f"{host}:{said}" for host, said in meet(seat, port)]


def meet(seat: Seat, word: Any) -> list[tuple[str, Any]]:
    """What each task said, and the host that it said it from, in order of ranks."""
    key = secret_for("meeting").encode()
    return _host(seat, word, key) if seat.rank == 0 else _visit(seat, word, key)


def _host(seat: Seat, word: Any, key: bytes) -> list[tuple[str, Any]]:
    known: dict[int, tuple[str, Any]] = {0: (seat.address, word)}
    guests: dict[int, socket.socket] = {}  # of a task that came again, the way that it came last
    proved: queue.SimpleQueue[_Guest] = queue.SimpleQueue()
    room = threading.BoundedSemaphore(_MOST_STRANGERS)
    with contextlib.ExitStack() as opened:
        door = opened.enter_context(socket.create_server(("" if seat.is_spread else "127.0.0.1", seat.port), backlog=128))
        door.settimeout(_LOOKS)
        deadline = time.monotonic() + _PATIENCE
        while len(known) < seat.size:
            with contextlib.suppress(TimeoutError):
                _let_in(*door.accept(), key, proved, room)
            while not proved.empty():
                guest = proved.get()
                guests[guest.rank] = opened.enter_context(guest.way)
                known[guest.rank] = (guest.host, guest.word)
            if len(known) < seat.size and time.monotonic() > deadline:
                missing = sorted(set(range(seat.size)) - set(known))
                raise Failed(f"task {missing[0]} did not come within {_PATIENCE:g} s.")
        all_said = [known[rank] for rank in range(seat.size)]
        for way in guests.values():
            text = json.dumps(all_said)
            _say(way, {"all": all_said, "proof": _proof(key, _hear(way), "host", 0, text)})
    return all_said


def _let_in(
    way: socket.socket, place: Any, key: bytes, proved: "queue.SimpleQueue[_Guest]", room: threading.BoundedSemaphore
) -> None:
    """Each is heard apart, so that nobody waits for one who says nothing; where too many are, who is ours comes again."""
    if not room.acquire(blocking=False):
        way.close()
        return

    def hear() -> None:
        try:
            guest = _proved(way, place[0], key)
        finally:
            room.release()
        if guest is None:
            way.close()
        else:
            proved.put(guest)

    threading.Thread(target=hear, daemon=True).start()


def _proved(way: socket.socket, host: str, key: bytes) -> _Guest | None:
    """None for whoever is none of us."""
    way.settimeout(_MANNERS)
    with contextlib.suppress(OSError, *_GARBAGE):
        challenge = secrets.token_hex(16)
        _say(way, challenge)
        said = _hear(way, time.monotonic() + _MANNERS)
        text = json.dumps(said["word"])
        if hmac.compare_digest(str(said["proof"]), _proof(key, challenge, "guest", said["rank"], text)):
            return _Guest(way, host, int(said["rank"]), said["word"])
    return None


def _visit(seat: Seat, word: Any, key: bytes) -> list[tuple[str, Any]]:
    """Whoever else answers is left, and the first task sought again: it may not be there yet."""
    deadline = time.monotonic() + _PATIENCE
    stranger = False
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError, *_GARBAGE),
            socket.create_connection((seat.address, seat.port), timeout=_MANNERS) as way,
        ):
            proof = _proof(key, _hear(way, time.monotonic() + _MANNERS), "guest", seat.rank, json.dumps(word))
            _say(way, {"rank": seat.rank, "word": word, "proof": proof})
            own = secrets.token_hex(16)
            _say(way, own)
            way.settimeout(max(0.1, deadline - time.monotonic()))
            heard = _hear(way, deadline)
            stranger = True
            if hmac.compare_digest(str(heard["proof"]), _proof(key, own, "host", 0, json.dumps(heard["all"]))):
                return [(str(host), said) for host, said in heard["all"]]
        time.sleep(0.2)
    if stranger:
        raise Failed("whoever answered in the first task's place is none of this job.")
    raise Failed(f"the first task did not answer at {seat.address}:{seat.port} within {_PATIENCE:g} s.")


def _proof(key: bytes, challenge: Any, who: str, rank: int, text: str) -> str:
    return hmac.new(key, json.dumps([challenge, who, rank, text]).encode(), hashlib.sha256).hexdigest()


def _say(way: socket.socket, word: Any) -> None:
    way.sendall(json.dumps(word).encode() + b"\n")


def _hear(way: socket.socket, deadline: float = math.inf) -> Any:
    """One line, byte by byte: what comes after it is the next one's."""
    line = bytearray()
    while not line.endswith(b"\n"):
        part = way.recv(1)
        if not part or len(line) > _LONGEST or time.monotonic() > deadline:
            raise OSError("nothing more was said")
        line += part
    return json.loads(line)
