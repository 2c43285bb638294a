"""Settings: one `falaj.toml` in the home, overridden by `FALAJ_SECTION_FIELD` in the environment."""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import TypeAdapter, ValidationError

from falaj.base.errors import Invalid
from falaj.base.values import Message, Name, Range, Text, value

Port = Annotated[int, Range(least=0, most=65535)]
Country = Annotated[str, Text(pattern="^[A-Z]{2}$", longest=2)]


@value
class PlatformSettings(Message):
    profile: Literal["solo", "team", "regulated"] = "solo"
    zone: Name = "home"  # the zone this control plane and its first storage stand in
    country: Country = "AE"


@value
class ServerSettings(Message):
    host: str = "127.0.0.1"
    port: Port = 8400
    hosts: tuple[str, ...] = ()  # further names this server answers to
    url: str = ""  # how users reach it, where that differs from host and port
    certificate: str = ""  # PEM files; both or neither
    private_key: str = ""


@value
class DatabaseSettings(Message):
    url: str = ""  # empty: SQLite in the home


@value
class KeysSettings(Message):
    kind: Literal["file", "pkcs11"] = "file"
    directory: str = ""  # empty: beside the home, `<home>.keys`
    module: str = ""  # pkcs11: the vendor's library
    token: str = ""
    pin: str = ""  # better in FALAJ_KEYS_PIN


@value
class StorageSettings(Message):
    kind: Literal["folder", "s3"] = "folder"
    directory: str = ""
    endpoint: str = ""
    bucket: str = ""
    region: str = "us-east-1"
    access_key: str = ""
    secret_key: str = ""


@value
class OidcSection(Message):
    issuer: str = ""
    client_id: str = ""
    client_secret: str = ""
    cli_client_id: str = ""
    groups_claim: str = "groups"
    scopes: str = "openid profile email groups"
    zone: str = ""  # where people who sign in this way sit


@value
class LimitSettings(Message):
    body_bytes: int = 1024 * 1024
    body_seconds: float = 20.0  # by when a request's body must be there
    upload_bytes: int = 1 << 40
    reserve_bytes: int = 32 * 1024 * 1024  # of the home's disk: kept for reading, whose record needs room, and for deleting
    upload_stall_seconds: float = 30.0  # how long an upload may stand still
    calls_per_second: float = 5000.0
    stranger_calls_per_second: float = 100.0


@value
class LedgerSettings(Message):
    copies: tuple[str, ...] = ()  # further directories that signed heads are copied to, e.g. a mount of another team


@value
class ServingSettings(Message):
    """The serving plane of this host. `enabled` false leaves it to whoever runs `falaj serve`."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 0  # 0: 8500, or any that is free where that is taken
    url: str = ""  # how callers reach it, where that differs from host and port
    workers: Annotated[int, Range(least=0, most=256)] = 0  # 0: by load, from one to as many as there are cores
    calls_per_worker: Annotated[int, Range(least=1, most=100_000)] = 100  # under way, before there should be one more
    threads: Annotated[int, Range(least=0, most=256)] = 0  # of one model; 0: measured, where cores allow
    certificate: str = ""  # PEM files; both or neither
    private_key: str = ""
    body_bytes: int = 64 * 1024 * 1024
    memory_mb: int = 0  # of one worker; 0: its part of half the machine
    converter: str = ""  # the Python that models are converted with; empty: this one, with `pip install 'falaj[convert]'`
    python: bool = False  # models that cannot be converted may run by their own code, in a sandbox, by that same Python
    hang_seconds: float = 10.0  # a worker whose loop stands still for so long is ended and replaced
    logs_days: Annotated[int, Range(least=1, most=3650)] = 30  # logged calls are kept so long
    logs_mib: Annotated[int, Range(least=1, most=2**30)] = 10_240  # of one endpoint; of more, the oldest are let go of


@value
class DataSettings(Message):
    """Data workers: processes behind walls that read and write rows for the control plane."""

    workers: Annotated[int, Range(least=1, most=256)] = 2  # at work at a time
    threads: Annotated[int, Range(least=1, most=256)] = 2  # of one worker
    memory_mib: Annotated[int, Range(least=256, most=2**24)] = 4096  # of one worker
    python: str = ""  # the Python they run by; empty: this one; another needs falaj's libraries
    folders: tuple[str, ...] = ()  # of this server, that places of external datasets may be in
    external_mib: Annotated[int, Range(least=64, most=2**30)] = 20_480  # of external datasets, held here while they are read
    push_seconds: Annotated[float, Range(least=1, most=86_400)] = 10.0  # so long pushed rows wait for their version, at most
    push_rows: Annotated[int, Range(least=1, most=10_000_000)] = 100_000  # of a dataset: with so many they wait no longer
    push_mib: Annotated[int, Range(least=1, most=1024)] = 16  # one push, as it is sent
    push_waiting_mib: Annotated[int, Range(least=1, most=2**24)] = 1024  # of a project, sealed: with more, pushes are refused


@value
class FeatureSettings(Message):
    """Where the newest feature values are kept for serving."""

    redis: str = ""  # redis:// or rediss://, a server that a fleet shares; empty: a folder of this home
    served_kept_days: Annotated[int, Range(least=1, most=3650)] = 30  # what views log of what is served, for audits


@value
class PoolSettings(Message):
    """Hosts of one kind that can be had on demand. What each has is as its engine will say."""

    engine: Literal["ray", "kubernetes"] = "ray"  # that they join
    cpus: Annotated[float, Range(least=0, most=100_000)] = 1.0
    memory_mib: Annotated[int, Range(least=1, most=2**40)] = 1024
    gpus: Annotated[int, Range(least=0, most=1024)] = 0
    gpu_model: str = ""
    zone: str = ""  # empty: ray_zone or kubernetes_zone, or the platform's own
    rack: str = ""
    least: Annotated[int, Range(least=0, most=10_000)] = 0  # so many are always there; 0: none while nobody needs one
    most: Annotated[int, Range(least=1, most=10_000)] = 1
    queues: tuple[Name, ...] = ()  # whose jobs may ask for one; none: every queue's
    add: tuple[str, ...] = ()  # the command that has one added, word by word; {name} stands for its name
    remove: tuple[str, ...] = ()  # the command that gives it back; {host} stands for what the engine calls it
    delay_seconds: Annotated[int, Range(least=0, most=86_400)] = 10  # so long jobs lack room before one is added
    cool_down_seconds: Annotated[int, Range(least=0, most=864_000)] = 600  # so long one is idle before it is given back
    start_seconds: Annotated[int, Range(least=1, most=86_400)] = 900  # by when its engine must have it, or it is given back
    command_seconds: Annotated[int, Range(least=1, most=86_400)] = 300  # by when a command must have ended, or it is killed


@value
class JobSettings(Message):
    """Where jobs run, and what an hour of it costs, in whatever currency you count in."""

    local: bool = True  # on this host, in sandboxes; needs bubblewrap
    host: Annotated[str, Text(pattern=r"^[A-Za-z0-9._:-]*$", longest=100)] = ""  # what it is called; empty: the name it has
    cpus: float = 0.0  # of this host, for jobs; 0: all there are
    memory_mib: Annotated[int, Range(least=0, most=2**40)] = 0  # likewise; 0: all but a part for the platform itself
    io: Annotated[int, Range(least=0, most=1_000_000)] = 0  # weight of its disks and network that jobs share by `--io`
    packages: tuple[str, ...] = ()  # indexes and folders with wheels that environments come from; none: as this host's pip
    package_certificates: str = ""  # a file with those that an index may show; empty: the usual ones
    certificates: str = ""  # a file with those that this platform may show, where it speaks TLS with its own
    images: tuple[str, ...] = ()  # where container images of jobs may be from, such as "registry.example/team"; none: nowhere
    pull_images: bool = False  # true: podman fetches those that this host does not have
    checkpoints: str = ""  # the folder for jobs' checkpoints, on every host; empty: one within each host's own folder for jobs
    checkpoints_kept_days: Annotated[int, Range(least=0, most=3650)] = 7  # after a job failed or was cancelled
    least_run_seconds: Annotated[int, Range(least=0, most=86_400)] = 60  # nothing that runs is preempted sooner
    longest_grace_seconds: Annotated[int, Range(least=0, most=3600)] = 120  # for what is asked back, whatever a job asked for
    price_cpu: float = 0.0  # of one core
    price_memory_gib: float = 0.0
    price_gpu: float = 0.0  # of one card of any model
    price_gpu_models: tuple[str, ...] = ()  # of a model, such as "H200=4.5"
    near_hosts: tuple[str, ...] = ()  # such as "127.0.0.1:5432": what jobs may reach of a host itself, and of its network alone
    private_network: bool = False  # true: private between projects, too: tasks of a job talk without encryption
    ray_address: str = ""  # of a Ray cluster's dashboard, such as "http://10.0.0.5:8265"; empty: none
    ray_token: str = ""  # better in FALAJ_JOBS_RAY_TOKEN
    ray_python: str = "python3"  # on the cluster's head, by its whole path
    ray_zone: str = ""  # where its hosts are; empty: the platform's own zone
    ray_owner: Name = "falaj"  # platforms that share a cluster differ in it
    kubernetes_url: str = ""  # of a cluster's API server; experimental; empty: none
    kubernetes_token: str = ""  # better in FALAJ_JOBS_KUBERNETES_TOKEN
    kubernetes_token_file: str = ""  # neither: what the pod is given that the platform itself runs in
    kubernetes_certificates: str = ""  # a PEM file: whom to believe to be the API server
    kubernetes_namespace: str = "falaj"  # platforms that share a cluster differ in it
    kubernetes_image: str = "docker.io/library/python:3.11-slim"  # of jobs that name none; and fetches their sources
    kubernetes_kueue: bool = True  # jobs wait for Kueue to admit them
    kubernetes_zone_label: str = "topology.kubernetes.io/zone"  # the label of nodes that says their zone
    kubernetes_zone: str = ""  # of nodes without that label; empty: they are not used
    kubernetes_platform_url: str = ""  # how pods reach the platform, where that differs from server.url
    kubernetes_platform_certificates: str = ""  # a PEM file: whom pods are to believe to be the platform
    pools: dict[Name, PoolSettings] | None = None  # hosts that can be had on demand


@value
class MonitoringSettings(Message):
    private_receivers: bool = False  # alerts may go to receivers inside the network; never to where clouds hand out credentials


@value
class TraceSettings(Message):
    endpoint: str = ""  # an OpenTelemetry collector, OTLP over HTTP


@value
class Settings(Message):
    platform: PlatformSettings = PlatformSettings()
    server: ServerSettings = ServerSettings()
    database: DatabaseSettings = DatabaseSettings()
    keys: KeysSettings = KeysSettings()
    storage: dict[Name, StorageSettings] | None = None
    oidc: OidcSection = OidcSection()
    limits: LimitSettings = LimitSettings()
    ledger: LedgerSettings = LedgerSettings()
    traces: TraceSettings = TraceSettings()
    serving: ServingSettings = ServingSettings()
    data: DataSettings = DataSettings()
    features: FeatureSettings = FeatureSettings()
    jobs: JobSettings = JobSettings()
    monitoring: MonitoringSettings = MonitoringSettings()


def read_settings(file: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the file, where there is one, and lay the environment over it."""
    try:
        document: dict[str, Any] = tomllib.loads(file.read_text()) if file.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} is not TOML: {error}") from None
    for section in Settings.__dataclass_fields__.keys() - {"storage"}:
        _lay_over(document.setdefault(section, {}), type(getattr(Settings(), section)), f"FALAJ_{section}", environment)
    storages = document.get("storage")
    for name, storage in storages.items() if isinstance(storages, dict) else ():
        _lay_over(storage, StorageSettings, f"FALAJ_STORAGE_{re.sub(r'[.-]', '_', name)}", environment)
    try:
        return TypeAdapter(Settings).validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Invalid(f"{file.name}: [{'.'.join(str(part) for part in first['loc'])}] {first['msg']}") from None


def _lay_over(section: Any, kind: Any, prefix: str, environment: Mapping[str, str]) -> None:
    """Put what the environment says about a section into it; one that is no table is for the schema to refuse."""
    for name, field in kind.__dataclass_fields__.items():
        text = environment.get(f"{prefix}_{name}".upper())
        if text is not None and isinstance(section, dict) and field.default is not None:  # tables have names of their own
            section[name] = _from_text(text, field.default)


def _from_text(text: str, default: Any) -> Any:
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return type(default)(text)
    except ValueError:
        return text  # the schema will say what is wrong with it
