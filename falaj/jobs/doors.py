"""What a job may not ask for, whatever its queue has: refused before anything is kept."""

import ipaddress
from collections.abc import Collection
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.running.images import may_run
from falaj.jobs.running.locks import Unusable, checked
from falaj.jobs.running.relay import may_be_reached

_HIGHEST_PORT: Final = 65_535


@value
class Door:
    """What operators allow. `near`: the hosts and ports that jobs may reach though they lead to a host itself or to its network
    alone. `images`: where container images may be from; None where clusters decide that for themselves. `keeps_outputs`: there
    are hosts where what a job declares to write is kept."""

    near: frozenset[str] = frozenset()
    images: tuple[str, ...] | None = None
    keeps_outputs: bool = True


def check_spec(spec: Spec, door: Door) -> None:
    if spec.lock and spec.image:
        raise Invalid("A job runs in an environment from a lock file or in an image, not in both.")
    if not spec.command[0]:
        raise Invalid("The command's first word is empty; it names the program to run.")
    try:
        checked(spec.lock)
    except Unusable as error:
        raise Invalid(f"No environment can be made of that lock: {error}.") from None
    for host in spec.hosts:
        _check_host(host, door.near)
    if spec.outputs and not door.keeps_outputs:
        raise Invalid("All jobs run on Kubernetes here, where nobody keeps what they declare to write: log it to the run.")
    if spec.image and door.images is not None:
        try:
            may_run(spec.image, door.images)
        except Unusable as error:
            raise Invalid(f"The image {spec.image!r} cannot be used: {error}.") from None


def _check_host(host: str, near: Collection[str]) -> None:
    """By its name alone: what a name leads to is looked at whenever the job connects."""
    if host == "*":
        return
    name, _, port = host.rpartition(":")
    if not 1 <= int(port) <= _HIGHEST_PORT:
        raise Invalid(f"{host!r} names no port; they go from 1 to {_HIGHEST_PORT}.")
    try:
        within_reach = may_be_reached(str(ipaddress.ip_address(name)))
    except ValueError:
        within_reach = name.lower().rstrip(".") != "localhost"
    if not within_reach and host.lower() not in near:
        raise Invalid(
            f"A job may not reach {host}: it leads to the host it runs on, or to that host's network alone."
            " An operator can allow it with [jobs] near_hosts."
        )
