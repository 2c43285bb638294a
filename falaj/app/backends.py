"""Which backend a setting means: the one table where key rings and storages are named, and where the database is."""

import os
from collections.abc import Mapping
from pathlib import Path

from falaj.app.home import Home
from falaj.app.settings import DataSettings, FeatureSettings, Settings, StorageSettings
from falaj.base.clock import Clock
from falaj.base.errors import Invalid
from falaj.database.opening import Location
from falaj.datasets.online.lmdb import LmdbStore
from falaj.datasets.online.redis import RedisStore
from falaj.datasets.online.stores import OnlineStore
from falaj.datasets.pushing.bounds import PushBounds
from falaj.datasets.workers import DataWorkers
from falaj.keys.file import KIT, PASSPHRASE_VARIABLE, FileKeyRing
from falaj.keys.pkcs11 import Pkcs11KeyRing
from falaj.keys.ring import KeyRing
from falaj.storage.blobs import Blobs
from falaj.storage.folder import FolderBlobs
from falaj.storage.retrying import Retrying
from falaj.storage.s3 import S3Blobs

LOCAL = "local"
PUSH_MEMORY = 2 << 30  # of the worker that takes in what is pushed
SHARE_STORAGE = (
    "before a second control plane starts, set [storage.local] in falaj.toml to a bucket, or to a directory that all of them "
    "see, and move the blobs there"
)


def database_location(home: Home, settings: Settings) -> Location:
    return Location(url=settings.database.url, file=home.database)


def look_at_ring(home: Home, settings: Settings, clock: Clock) -> KeyRing:
    """Open the ring that is there, and leave it as it is."""
    if settings.keys.kind == "pkcs11":
        return open_ring(home, settings, clock, home_exists=True)
    passphrase = os.environ.get(PASSPHRASE_VARIABLE, "")
    return FileKeyRing(key_directory(home, settings), escrow=home.escrow, clock=clock, passphrase=passphrase)


def open_ring(home: Home, settings: Settings, clock: Clock, *, home_exists: bool) -> KeyRing:
    keys = settings.keys
    if keys.kind == "pkcs11":
        return Pkcs11KeyRing(module=Path(keys.module), token=keys.token, pin=keys.pin, clock=clock)
    return FileKeyRing.open_or_create(
        key_directory(home, settings),
        escrow=home.escrow,
        clock=clock,
        home_exists=home_exists,
        passphrase=os.environ.get(PASSPHRASE_VARIABLE, ""),
    )


def key_directory(home: Home, settings: Settings) -> Path:
    return Path(settings.keys.directory).expanduser() if settings.keys.directory else home.keys


def data_workers_of(data: DataSettings, home: Home) -> DataWorkers:
    """None is started before there is something to do."""
    return DataWorkers(
        workers=data.workers,
        threads=data.threads,
        memory_bytes=data.memory_mib << 20,
        folder=home.path,
        interpreter=data.python,
    )


def push_workers_of(data: DataSettings, home: Home) -> DataWorkers:
    """The one that takes in what is pushed, so that imports and queries keep nobody waiting at that door."""
    return DataWorkers(workers=1, threads=1, memory_bytes=PUSH_MEMORY, folder=home.path, interpreter=data.python)


def push_bounds_of(data: DataSettings) -> PushBounds:
    return PushBounds(
        seconds=data.push_seconds, rows=data.push_rows, largest=data.push_mib << 20, held_bytes=data.push_waiting_mib << 20
    )


def online_store_of(features: FeatureSettings, home: Home) -> OnlineStore:
    """A server that a fleet shares, or a folder of this home."""
    return RedisStore(features.redis) if features.redis else LmdbStore(home.online)


def recovery_kit(home: Home, settings: Settings) -> Path:
    """Where the recovery kit of a file ring lies until its owner has put it away."""
    return key_directory(home, settings) / KIT


def unshared_storage(home: Home, settings: Settings) -> str:
    """What will be wrong with the storage where several control planes share a Postgres; empty where nothing will."""
    local = (settings.storage or {}).get(LOCAL, StorageSettings())
    if not settings.database.url or local.kind != "folder" or local.directory:
        return ""
    return (
        f"The storage `{LOCAL}` is the folder {home.blobs} of this home alone: another control plane on the same Postgres "
        "cannot read what is stored there."
    )


def open_storages(home: Home, settings: Settings) -> Mapping[str, Blobs]:
    named = {LOCAL: StorageSettings(), **(settings.storage or {})}
    return {name: _open_storage(home, name, storage) for name, storage in named.items()}


def _open_storage(home: Home, name: str, storage: StorageSettings) -> Blobs:
    if storage.kind == "s3":
        return Retrying(
            S3Blobs(
                endpoint=storage.endpoint or None,
                bucket=storage.bucket,
                region=storage.region,
                access_key=storage.access_key,
                secret_key=storage.secret_key,
            )
        )
    folder = Path(storage.directory).expanduser() if storage.directory else home.blobs if name == LOCAL else None
    if folder is None:
        raise Invalid(f"[storage.{name}] is a folder and needs a directory.")
    return FolderBlobs(folder)
