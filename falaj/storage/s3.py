"""Objects in a bucket of an S3 service, through obstore.

A stream handed to obstore's `put` is buffered whole, so objects are written in parts. Parts of an upload that died stay with
the service until its rule for incomplete uploads removes them: set one on the bucket.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from falaj.base.clock import Moment
from falaj.storage.blobs import OBJECT_ID, Stored, checked
from falaj.storage.errors import ObjectMissing, StorageNotConfigured, StorageRefused, StorageUnavailable
from falaj.storage.upstream import MOST_LISTED, Entry, ObjectChanged, too_many

PIECE = 1 << 20
# S3 takes at most 10,000 parts: objects up to 160 GB. Memory is at most a part for each that travels and the one that fills.
PART = 16 << 20
PARTS_AT_ONCE = 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class S3Blobs:
    """`Blobs` in a bucket. Without keys, obstore looks for them where AWS's tools do.

    The modification time of a large object may be the moment its upload began.
    """

    def __init__(
        self,
        *,
        bucket: str,
        access_key: str | None = None,
        secret_key: str | None = None,
        region: str = "us-east-1",
        endpoint: str | None = None,
        prefix: str = "",
        timeout: timedelta = timedelta(seconds=60),
    ) -> None:
        self._name = f"bucket {bucket!r}"
        self._refused = f"The {self._name} refuses Falaj's credentials; look at its [storage] section in falaj.toml."
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._obstore = obstore = _obstore()
        # Trying again is `Retrying`'s work; two that retry would multiply their waiting.
        told = {"endpoint": endpoint, "access_key_id": access_key, "secret_access_key": secret_key}
        self._store = obstore.store.S3Store(
            bucket,
            region=region,
            **{name: text for name, text in told.items() if text},
            client_options={"allow_http": (endpoint or "").startswith("http://"), "timeout": timeout, "connect_timeout": "5s"},
            retry_config={"max_retries": 0},
        )

    def put(self, object_id: str, chunks: Iterator[bytes]) -> int:
        size, path = 0, self._path(object_id)
        with self._told(object_id):
            writer = self._obstore.open_writer(self._store, path, buffer_size=PART, max_concurrency=PARTS_AT_ONCE)
        for chunk in chunks:
            size += len(chunk)
            with self._told(object_id):
                writer.write(chunk)
        with self._told(object_id):
            writer.close()  # only now it becomes visible; a writer dropped before leaves nothing
        return size

    def read(self, object_id: str, offset: int, length: int) -> Iterator[bytes]:
        path = self._path(object_id)
        with self._told(object_id):
            # S3 refuses a range that starts at or behind the end, so the size comes first.
            length = min(length, self._obstore.head(self._store, path)["size"] - offset)
            if length <= 0:
                return
            found = self._obstore.get(self._store, path, options={"range": (offset, offset + length)})
            for piece in found.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    def size(self, object_id: str) -> int:
        path = self._path(object_id)
        with self._told(object_id):
            return int(self._obstore.head(self._store, path)["size"])

    def delete(self, object_id: str) -> None:
        path = self._path(object_id)
        try:
            with self._told(object_id):
                self._obstore.delete(self._store, path)
        except ObjectMissing:
            pass

    def list(self, after: str, limit: int) -> tuple[Stored, ...]:
        found: list[Stored] = []
        with self._told(after):
            offset = f"{self._prefix}{after}" if after else None
            for batch in self._obstore.list(self._store, prefix=self._prefix or None, offset=offset, chunk_size=limit):
                for entry in batch:
                    name = entry["path"].removeprefix(self._prefix)
                    if OBJECT_ID.fullmatch(name):
                        found.append(Stored(id=name, modified=_moment(entry["last_modified"])))
                if len(found) >= limit:
                    break
        return tuple(sorted(found, key=lambda stored: stored.id)[:limit])

    def probe(self) -> None:
        with self._told("probe"):
            next(iter(self._obstore.list(self._store, prefix=self._prefix or None, chunk_size=1)), None)

    def _path(self, object_id: str) -> str:
        return self._prefix + checked(object_id)

    @contextmanager
    def _told(self, object_id: str) -> Iterator[None]:
        errors = self._obstore.exceptions
        try:
            yield
        except FileNotFoundError as error:
            raise ObjectMissing(f"There is no object {object_id} in the {self._name}.") from error
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise StorageRefused(self._refused) from error
        except (errors.BaseError, OSError) as error:
            if "403 Forbidden" in str(error):
                raise StorageRefused(self._refused) from error
            raise StorageUnavailable(f"The {self._name} does not answer; try again shortly.", delay=2) from error


class S3Objects:
    """`upstream.Objects` below a prefix of somebody's bucket. Without keys it is asked as by a stranger."""

    def __init__(
        self,
        name: str,
        *,
        bucket: str,
        prefix: str,
        access_key: str,
        secret_key: str,
        region: str = "",
        endpoint: str = "",
        timeout: timedelta = timedelta(seconds=600),
    ) -> None:
        self._name = name
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._obstore = obstore = _obstore()
        # Everything is said, for what is not obstore takes from our environment: a token of ours, or another address.
        keys = {"access_key_id": access_key, "secret_access_key": secret_key} | dict.fromkeys(("token", "expires_at"))
        known = {"credential_provider": lambda: keys} if access_key else {"skip_signature": True}
        region = region or "us-east-1"
        self._store = obstore.store.S3Store(
            bucket,
            endpoint=endpoint or f"https://s3.{region}.amazonaws.com",
            region=region,
            client_options={"allow_http": endpoint.startswith("http://"), "timeout": timeout, "connect_timeout": "10s"},
            retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=30)},
            **known,
        )

    def list(self, folder: str) -> tuple[Entry, ...]:
        found: list[Entry] = []
        with self._told(folder):
            for batch in self._obstore.list(self._store, prefix=f"{self._prefix}{folder}" or None, chunk_size=1000):
                found += [self._entry(one) for one in batch]
                if len(found) > MOST_LISTED:
                    raise too_many(self._name)
        return tuple(sorted(found, key=lambda entry: entry.path))

    def look(self, path: str) -> Entry:
        with self._told(path):
            return self._entry(self._obstore.head(self._store, self._prefix + path))

    def read(self, entry: Entry) -> Iterator[bytes]:
        with self._told(entry.path):
            found = self._obstore.get(self._store, self._prefix + entry.path)
            if self._entry(found.meta) != entry:
                raise ObjectChanged(f"{entry.path!r} in {self._name} is not what it was.")
            for piece in found.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    def _entry(self, meta: Any) -> Entry:
        mark = (meta.get("e_tag") or "").strip('"')
        return Entry(path=meta["path"].removeprefix(self._prefix), size=int(meta["size"]), mark=mark)

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        errors = self._obstore.exceptions
        try:
            yield
        except FileNotFoundError:
            raise ObjectMissing(f"There is no {path!r} in {self._name}.") from None
        except (errors.PermissionDeniedError, errors.UnauthenticatedError):
            raise StorageRefused(f"{self._name} refuses its credentials: an operator can set them anew.") from None
        except (errors.BaseError, OSError) as error:
            if "403 Forbidden" in str(error):
                raise StorageRefused(f"{self._name} refuses its credentials: an operator can set them anew.") from None
            if "404 Not Found" in str(error):
                raise ObjectMissing(f"There is no {path!r} in {self._name}.") from None
            raise StorageUnavailable(f"{self._name} does not answer; try again shortly.", delay=2) from None


def _obstore() -> Any:
    """The vendor's library, loaded when a storage needs it: it is large, and an extra."""
    try:
        import obstore
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise StorageNotConfigured("Storage in S3 needs an extra: pip install falaj[s3]") from None
    return obstore


def _moment(stamp: datetime) -> Moment:
    return Moment((stamp - EPOCH) // timedelta(microseconds=1))
