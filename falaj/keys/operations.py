"""What the platform's operators may ask about keys. Rotating a project's key is declared in `storage`, beside its data keys."""

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Id, Message, Name, value


@value
class ListKeys(Message):
    limit: Limit = 100
    cursor: Cursor = ""


@value
class KeyVersionShown(Message):
    version: int
    created: Moment


@value
class RingKey(Message):
    """A wrapping key: which versions there are. The newest wraps, all unwrap."""

    name: str
    versions: tuple[KeyVersionShown, ...]


@value
class SigningKeyShown(Message):
    id: str
    purpose: str
    public: str  # the Ed25519 public key, hex
    created: Moment
    retired: Moment | None = None


@value
class Keys(Message):
    items: tuple[RingKey, ...]
    signing: tuple[SigningKeyShown, ...]
    next: str = ""


@value
class RotateSigning(Message):
    purpose: Name


@value
class SigningRotated(Message):
    id: Id
    purpose: Name
    public: str


KEY_LIST = Operation(
    name="key.list",
    summary="List the key ring's keys and the signing keys, without their material",
    method="GET",
    path="keys",
    request=ListKeys,
    result=Keys,
    permission=Permission(name="key.list", group=Group.OPERATE),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)

KEY_ROTATE_SIGNING = Operation(
    name="key.rotate-signing",
    summary="Sign with a new key from now on; what older keys signed stays valid",
    method="POST",
    path="keys/signing/{purpose}/rotate",
    request=RotateSigning,
    result=SigningRotated,
    permission=Permission(name="key.rotate-signing", group=Group.ADMINISTER),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)

OPERATIONS = (KEY_LIST, KEY_ROTATE_SIGNING)
