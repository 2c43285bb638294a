"""The handlers of the key operations."""

from falaj.base.clock import Moment
from falaj.base.pages import page_of, read_text_cursor
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.keys import store
from falaj.keys.operations import (
    KEY_LIST,
    KEY_ROTATE_SIGNING,
    Keys,
    KeyVersionShown,
    ListKeys,
    RingKey,
    RotateSigning,
    SigningKeyShown,
    SigningRotated,
)
from falaj.keys.ring import KeyRing
from falaj.keys.signing import SigningKeys


class KeyService:
    def __init__(self, ring: KeyRing, signing: SigningKeys) -> None:
        self._ring = ring
        self._signing = signing

    def bindings(self) -> list[Bound]:
        return [bind(KEY_LIST, self.list), bind(KEY_ROTATE_SIGNING, self.rotate_signing)]

    def list(self, context: Context, request: ListKeys) -> Keys:
        after = read_text_cursor(request.cursor)
        names = [name for name in self._ring.names() if name > after]
        page, following = page_of(names, request.limit, lambda name: (name,))
        return Keys(
            items=tuple(self._shown(name) for name in page),
            signing=() if after else self._signing_shown(context),
            next=following,
        )

    def rotate_signing(self, context: Context, request: RotateSigning) -> SigningRotated:
        signer = self._signing.rotate(context.work, request.purpose, context.now)
        context.facts["key"] = signer.key_id
        return SigningRotated(id=signer.key_id, purpose=request.purpose, public=signer.public.hex())

    def _shown(self, name: str) -> RingKey:
        versions = self._ring.versions(name)
        return RingKey(name=name, versions=tuple(KeyVersionShown(version=v.version, created=v.created) for v in versions))

    def _signing_shown(self, context: Context) -> tuple[SigningKeyShown, ...]:
        return tuple(
            SigningKeyShown(
                id=row.id,
                purpose=row.purpose,
                public=row.public.hex(),
                created=Moment(row.created),
                retired=None if row.retired is None else Moment(row.retired),
            )
            for row in store.every(context.work)
        )
