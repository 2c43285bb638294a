"""Models on a plane's disk: whole, by their digest, sealed under the plane's key. What opens is what was signed, or nothing."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from falaj.base.errors import Corrupt
from falaj.base.files import write_durably
from falaj.keys.errors import Unopenable
from falaj.keys.sealing import seal, unseal
from falaj.runtimes.engine import ModelFiles
from falaj.serving.states import File, Revision

_PART: Final = 256 * 1024 * 1024  # a single sealing takes less than 2 GiB
_LENGTH: Final = 8


class SealedModels:
    """Thread-safe; several processes may share the directory, for a file is whole from the moment it has its name."""

    def __init__(self, directory: Path, key: bytes) -> None:
        self._directory = directory
        self._key = key

    def has(self, file: File) -> bool:
        return (self._directory / file.digest).exists()

    def keep(self, file: File, chunks: Iterable[bytes]) -> None:
        """Raises `Corrupt`, keeping nothing, where the bytes are not those that the state names."""
        content = bytearray()
        for chunk in chunks:
            content += chunk
            if len(content) > file.size:
                break
        _check(file, content)
        write_durably(self._directory / file.digest, b"".join(self._sealed(file.digest, bytes(content))))

    def open(self, revision: Revision) -> ModelFiles:
        """A revision's files in memory, checked against the digests that the signed state names."""
        return ModelFiles(
            runtime=revision.runtime,
            main=revision.file,
            contents={file.name: self._content(file) for file in revision.files},
            columns=tuple(column.name for column in revision.columns),
            settings=revision.settings,
        )

    def forget_others(self, digests: Collection[str]) -> None:
        """Remove what no revision needs any more."""
        for path in self._directory.iterdir():
            if path.name not in digests:
                with suppress(FileNotFoundError):
                    path.unlink()

    def _content(self, file: File) -> bytes:
        try:
            sealed = (self._directory / file.digest).read_bytes()
        except FileNotFoundError:
            raise Corrupt(f"The model file {file.name!r} is not on this plane's disk; it is fetched again.") from None
        try:
            content = b"".join(self._opened(file.digest, sealed))
        except Unopenable:
            raise self._spoilt(file) from None
        try:
            _check(file, content)
        except Corrupt:
            raise self._spoilt(file) from None
        return content

    def _spoilt(self, file: File) -> Corrupt:
        (self._directory / file.digest).unlink(missing_ok=True)
        return Corrupt(f"The model file {file.name!r} was changed on this plane's disk and is not used; it is fetched again.")

    def _sealed(self, digest: str, content: bytes) -> Iterator[bytes]:
        count = max(1, -(-len(content) // _PART))
        for index in range(count):
            part = seal(self._key, content[index * _PART : (index + 1) * _PART], _context(digest, index, count))
            yield len(part).to_bytes(_LENGTH)
            yield part

    def _opened(self, digest: str, sealed: bytes) -> Iterator[bytes]:
        parts, position = [], 0
        while position < len(sealed):
            start = position + _LENGTH
            position = start + int.from_bytes(sealed[start - _LENGTH : start])
            parts.append(sealed[start:position])
        for index, part in enumerate(parts):
            yield unseal(self._key, part, _context(digest, index, len(parts)))


def _context(digest: str, index: int, count: int) -> bytes:
    return f"plane model {digest} {index} {count}".encode()


def _check(file: File, content: bytes | bytearray) -> None:
    if len(content) != file.size or hashlib.sha256(content).hexdigest() != file.digest:
        raise Corrupt(f"The model file {file.name!r} is not what was signed: other bytes came. It is not used.")
