"""Which task of the job this is, where the first one listens, and what only this job's tasks know."""

import hashlib
import hmac
import os
import socket
from collections.abc import Mapping

from falaj.base.values import value
from falaj.training.launchers.starting.failures import Unfit

_LOOPBACK = ("127.", "localhost", "::1")


@value
class Seat:
    """`is_open`: what tasks say to each other crosses hosts, and nobody declared that network private."""

    rank: int = 0
    size: int = 1
    address: str = "127.0.0.1"
    port: int = 29500
    is_spread: bool = False
    is_open: bool = False


@value
class Told:
    """What the starter was told on its command line."""

    processes: int = 1
    restarts: int = 0
    cpus: int = 1
    gpus: int = 0
    grace: int = 30
    script: tuple[str, ...]


def seat_of(variables: Mapping[str, str] = os.environ) -> Seat:
    address = variables.get("MASTER_ADDR", "127.0.0.1")
    size = int(variables.get("WORLD_SIZE", "1"))
    is_spread = size > 1 and not address.startswith(_LOOPBACK)
    return Seat(
        rank=int(variables.get("RANK", "0")),
        size=size,
        address=address,
        port=int(variables.get("MASTER_PORT", "29500")),
        is_spread=is_spread,
        is_open=is_spread and variables.get("GLOO_DEVICE_TRANSPORT") == "TCP_TLS",  # as jobs are told where it is not private
    )


def own_address(seat: Seat) -> str:
    """Where the other tasks find this one: the address that it would speak to the first one from."""
    if seat.rank == 0 or not seat.is_spread:
        return seat.address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((seat.address, seat.port))  # nothing is sent
        return str(way.getsockname()[0])


def secret_for(purpose: str, variables: Mapping[str, str] = os.environ) -> str:
    """64 hexadecimal digits that all tasks of this try know and nobody else; another for each purpose."""
    token = variables.get("FALAJ_TOKEN", "")
    if not token:
        raise Unfit("FALAJ_TOKEN is not set; tasks of a job know each other by it.")
    return hmac.new(token.encode(), f"falaj launcher {purpose}".encode(), hashlib.sha256).hexdigest()
