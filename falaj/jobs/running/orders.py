"""What a keeper is told: everything was decided by the engine, so that the keeper needs no library and no settings."""

from typing import Any, NamedTuple


class Part(NamedTuple):
    """Of a card that an attempt holds. `id` is what CUDA calls it, `number` what people do; `nodes` are its device files."""

    id: str
    number: int
    milli: int
    memory_mib: int  # that its processes may hold together
    tasks: int  # that share it
    nodes: tuple[str, ...]
    pipes: str = ""  # where the card's MPS daemon listens; empty without one


class Packages(NamedTuple):
    """Where environments are kept and what they are made from. `hosts` are the only ones that can be reached meanwhile."""

    folder: str
    indexes: tuple[str, ...]
    hosts: tuple[str, ...]
    links: tuple[str, ...]  # folders with wheels
    certificates: str
    seconds: int
    disk_mib: int
    kept_mib: int


class House(NamedTuple):
    """What the sandbox is made of. `user` is nobody else's, or 0 where a user namespace does that."""

    bubblewrap: str
    interpreter: str
    readable: tuple[str, ...]
    libraries: tuple[str, ...]  # readable, too, where the platform's own environment is used
    hidden: tuple[str, ...]
    user: int
    groups: bool  # whether limits are held by control groups where that can be
    is_shared: bool  # others are the same user, because they share a card with it


class Gang(NamedTuple):
    """Tasks on several hosts, as one of the hosts knows them: the rank of its own first one, how many there are on all hosts,
    and where the very first listens. They find each other on the network of the hosts, at `own` on this one."""

    first: int
    size: int
    own: str
    address: str
    port: int
    readable: tuple[tuple[str, str], ...] = ()  # (outside, inside): what they know each other by


class Image(NamedTuple):
    """A container image that an attempt runs in instead of the host's own files, and who runs it: `podman`.

    The first process inside is ours, and needs what our interpreter is made of: `program` and its own `library`, the `loader`
    that starts it (empty where it needs none), and the `folders` that its shared libraries are in.
    """

    name: str
    podman: str
    pulls: bool  # from where its name says, where it is not here
    program: str
    library: str
    loader: str
    folders: tuple[str, ...]


class Order(NamedTuple):
    """One attempt. `tasks` names, for each task, the cards it sees. Amounts are for all tasks together; 0 is no limit.

    `environment` is the name of the one made from `requirements`, or empty for the platform's own.
    """

    attempt: str
    command: tuple[str, ...]
    tasks: tuple[tuple[str, ...], ...]
    environment: str
    requirements: str
    hosts: tuple[str, ...]
    platform_url: str
    certificates: str  # a file with those to trust when speaking to the platform; empty for the usual ones
    cpu_milli: int
    memory_mib: int
    seconds: int
    disk_mib: int
    log_mib: int
    processes: int
    cores: tuple[int, ...]
    cards: tuple[Part, ...]
    house: House
    packages: Packages
    gang: Gang | None = None  # where it has tasks on other hosts, too
    image: Image | None = None
    outputs: tuple[str, ...] = ()  # that it is to have written when it has ended well
    zone: str = ""  # where they are kept
    checkpoints: tuple[str, ...] = ()  # places of its folder for them, and of those that may become it


def written(order: Order) -> dict[str, Any]:
    parts: dict[str, Any] = {"cards": [card._asdict() for card in order.cards]}
    gang = order.gang._asdict() if order.gang else None
    image = order.image._asdict() if order.image else None
    parts |= {"house": order.house._asdict(), "packages": order.packages._asdict(), "gang": gang, "image": image}
    return order._asdict() | parts


def understood(document: dict[str, Any]) -> Order:
    plain = {name: tuple(found) if isinstance(found, list) else found for name, found in document.items()}
    return Order(
        **plain
        | {
            "tasks": tuple(tuple(cards) for cards in document["tasks"]),
            "cards": tuple(Part(**card) for card in document["cards"]),
            "house": House(**document["house"]),
            "packages": Packages(**document["packages"]),
            "gang": Gang(**document["gang"]) if document["gang"] else None,
            "image": Image(**document["image"]) if document.get("image") else None,
        }
    )
