"""Taking in what an operator tells of packages: read whole, and instead of what was told before."""

import hashlib
from collections.abc import Iterator
from typing import Final

from falaj.base.errors import TooLarge
from falaj.base.values import value
from falaj.database.binding import Bound, bind_upload
from falaj.database.work import Context
from falaj.lifecycle.gates import store
from falaj.lifecycle.gates.packages import EVERY, read_advisories, read_licences
from falaj.lifecycle.operations import gates as declared
from falaj.lifecycle.operations.gates import PackagesKnown

LARGEST: Final = 64 << 20


@value
class Received:
    told: dict[str, str]
    digest: str


class KnowledgeService:
    def bindings(self) -> list[Bound]:
        return [bind_upload(declared.KNOW_PACKAGES, self.receive, self.know)]

    def receive(self, _: Context, request: declared.KnowPackages, chunks: Iterator[bytes]) -> Received:
        content, digest = bytearray(), hashlib.sha256()
        for chunk in chunks:
            content += chunk
            digest.update(chunk)
            if len(content) > LARGEST:
                raise TooLarge(f"This file is larger than {LARGEST >> 20} MiB: keep the packages that are used.")
        read = read_advisories if request.about == store.ADVISORY else read_licences
        return Received(told=read(bytes(content)), digest=digest.hexdigest())

    def know(self, context: Context, request: declared.KnowPackages, received: Received) -> PackagesKnown:
        row = {"digest": received.digest, "at": int(context.now), "by": context.identity.principal}
        store.know(context.work, context.required_project.id, request.about, received.told, row)
        packages = len(received.told.keys() - {EVERY})
        context.facts.update(digest=received.digest, packages=packages)
        return PackagesKnown(about=request.about, packages=packages, digest=received.digest, at=context.now)
