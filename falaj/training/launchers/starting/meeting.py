"""How the tasks of one try find each other before their framework can: all come to the first one, prove that they are of this
try, say something, and hear what all said. What is said is no secret; who says it is proved, both ways, by what all know."""

import contextlib
import hashlib
import hmac
import json
import math
import secrets
import socket
import time
from typing import Any, Final

from falaj.training.launchers.starting.failures import Failed
from falaj.training.launchers.starting.seats import Seat, secret_for

_PATIENCE: Final = 300.0  # seconds for all to come: environments are made at different speeds
_MANNERS: Final = 10.0  # seconds for who has come to say who they are: the others wait
_LONGEST: Final = 1 << 20


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
    guests: list[socket.socket] = []
    with contextlib.ExitStack() as opened:
        door = opened.enter_context(socket.create_server(("" if seat.is_spread else "127.0.0.1", seat.port), backlog=128))
        deadline = time.monotonic() + _PATIENCE
        while len(known) < seat.size:
            door.settimeout(max(0.1, deadline - time.monotonic()))
            try:
                guest, place = door.accept()
            except TimeoutError:
                missing = sorted(set(range(seat.size)) - set(known))
                raise Failed(f"task {missing[0]} did not come within {_PATIENCE:g} s.") from None
            opened.enter_context(guest)
            guest.settimeout(_MANNERS)
            # Whoever it was otherwise, it is none of us.
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                challenge = secrets.token_hex(16)
                _say(guest, challenge)
                said = _hear(guest, time.monotonic() + _MANNERS)
                text = json.dumps(said["word"])
                if hmac.compare_digest(str(said["proof"]), _proof(key, challenge, "guest", said["rank"], text)):
                    known[int(said["rank"])] = (place[0], said["word"])
                    guests.append(guest)
        all_said = [known[rank] for rank in range(seat.size)]
        for guest in guests:
            text = json.dumps(all_said)
            _say(guest, {"all": all_said, "proof": _proof(key, _hear(guest), "host", 0, text)})
    return all_said


def _visit(seat: Seat, word: Any, key: bytes) -> list[tuple[str, Any]]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection((seat.address, seat.port), timeout=10.0) as way:
            proof = _proof(key, _hear(way), "guest", seat.rank, json.dumps(word))
            _say(way, {"rank": seat.rank, "word": word, "proof": proof})
            own = secrets.token_hex(16)
            _say(way, own)
            way.settimeout(_PATIENCE)
            heard = _hear(way)
            if hmac.compare_digest(str(heard["proof"]), _proof(key, own, "host", 0, json.dumps(heard["all"]))):
                return [(str(host), said) for host, said in heard["all"]]
            raise Failed("whoever answered in the first task's place is none of this job.")
        if time.monotonic() > deadline:
            raise Failed(f"the first task did not answer at {seat.address}:{seat.port} within {_PATIENCE:g} s.")
        time.sleep(0.2)


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
