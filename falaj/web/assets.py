"""The console's own files: read once, named by their content, handed to anybody."""

import hashlib
from pathlib import Path
from typing import Final

from falaj.base.errors import NotFound
from falaj.base.operation import Download
from falaj.base.values import Nothing, value
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.web.operations import ASSET, SIGN_IN, OneAsset, SignInWays

DIRECTORY: Final = Path(__file__).parent / "static"
MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


@value
class Asset:
    content: bytes
    media_type: str


class Assets:
    """Immutable after construction, so thread-safe. No name from outside ever becomes a path."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._by_url_name: dict[str, Asset] = {}
        self._url_names: dict[str, str] = {}
        for file in sorted(directory.iterdir()):
            content = file.read_bytes()
            url_name = f"{file.stem.lower()}.{hashlib.sha256(content).hexdigest()[:16]}{file.suffix}"
            self._by_url_name[url_name] = Asset(content=content, media_type=MEDIA_TYPES[file.suffix])
            self._url_names[file.name] = url_name

    def url(self, name: str) -> str:
        return f"/assets/{self._url_names[name]}"

    def find(self, url_name: str) -> Asset:
        if (asset := self._by_url_name.get(url_name)) is None:
            raise NotFound(f"The console has no file {url_name!r}; reload the page.")
        return asset


class PublicFace:
    """What the console shows to people it does not know yet, and what it declares itself. Made before the dispatcher."""

    def __init__(self, *, version: str, oidc: bool) -> None:
        self.assets = Assets()
        self.version = version
        self.oidc = oidc

    def bindings(self) -> list[Bound]:
        return [bind(ASSET, self.asset), bind(SIGN_IN, self.ways_in)]

    def asset(self, _context: Context, request: OneAsset) -> Download:
        asset = self.assets.find(request.name)
        return Download(chunks=iter((asset.content,)), size=len(asset.content), name=request.name, media_type=asset.media_type)

    def ways_in(self, _context: Context, _request: Nothing) -> SignInWays:
        return SignInWays(version=self.version, oidc=self.oidc)
