"""What can be asked about people, service accounts, roles, groups and tokens."""

from typing import Annotated, Final

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import NAME_PATTERN, Id, Items, Message, Name, NameOrNone, Nothing, Personal, Range, Secret, Text, value
from falaj.governance.roles import Role

Login = Annotated[str, Text(pattern=NAME_PATTERN, longest=100), Personal()]
Display = Annotated[str, Text(longest=200), Personal()]
Email = Annotated[str, Text(longest=320), Personal()]
Label = Annotated[str, Text(longest=100)]
GroupName = Annotated[str, Text(shortest=1, longest=200)]
ScopeNames = Annotated[tuple[Annotated[str, Text(pattern=r"^[a-z][a-z.-]*$", longest=100)], ...], Items(most=100)]
ProjectNames = Annotated[tuple[Name, ...], Items(most=100)]
Days = Annotated[int, Range(least=0, most=3660)]
TokenText = Annotated[str, Text(longest=5000), Secret()]
Code = Annotated[str, Text(longest=200), Secret()]


# People


@value
class User(Message):
    id: Id
    name: Login
    display: Display
    email: Email
    signs_in_with: str  # the identity provider's address; empty for people who were invited
    disabled: bool
    erased: bool
    platform_roles: tuple[Role, ...]
    created: Moment


@value
class CreateUser(Message):
    """`zone` is where this person works; the sign-in code, and what is made with it, carries that zone."""

    name: Login
    display: Display = ""
    email: Email = ""
    zone: NameOrNone = ""


@value
class Invited(Message):
    """`code` opens one session, until it expires; hand it to that person alone."""

    id: Id
    code: Code
    expires: Moment


@value
class OneUser(Message):
    """`user` is a name or an id."""

    user: Login


@value
class InviteUser(Message):
    user: Login
    zone: NameOrNone = ""


@value
class ListUsers(Message):
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Users(Message):
    items: tuple[User, ...]
    next: str = ""


_ADMINISTER_USERS: Final = Permission(name="user.administer", group=Group.ADMINISTER)
_READ_USERS: Final = Permission(name="user.read", group=Group.READ)

CREATE_USER: Final = Operation(
    name="user.create",
    summary="Add a person and make a code for the first sign-in.",
    method="POST",
    path="users",
    request=CreateUser,
    result=Invited,
    permission=_ADMINISTER_USERS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
INVITE_USER: Final = Operation(
    name="user.invite",
    summary="Make another one-time sign-in code for a person.",
    method="POST",
    path="users/{user}/invite",
    request=InviteUser,
    result=Invited,
    permission=Permission(name="user.invite", group=Group.ADMINISTER),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_USERS: Final = Operation(
    name="user.list",
    summary="List people.",
    method="GET",
    path="users",
    request=ListUsers,
    result=Users,
    permission=_READ_USERS,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
SHOW_USER: Final = Operation(
    name="user.show",
    summary="Show one person.",
    method="GET",
    path="users/{user}",
    request=OneUser,
    result=User,
    permission=_READ_USERS,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
DISABLE_USER: Final = Operation(
    name="user.disable",
    summary="Shut a person out; every token of theirs stops at once.",
    method="POST",
    path="users/{user}/disable",
    request=OneUser,
    result=User,
    permission=_ADMINISTER_USERS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
ENABLE_USER: Final = Operation(
    name="user.enable",
    summary="Let a disabled person in again. Old tokens stay revoked.",
    method="POST",
    path="users/{user}/enable",
    request=OneUser,
    result=User,
    permission=_ADMINISTER_USERS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
ERASE_USER: Final = Operation(
    name="user.erase",
    summary="Remove a person's name, address and tokens for good, and the salts of what the ledger holds of them.",
    method="POST",
    path="users/{user}/erase",
    request=OneUser,
    result=User,
    permission=Permission(name="user.erase", group=Group.ADMINISTER),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)

# Tokens


@value
class Token(Message):
    """What is kept of a token; the secret itself is not. `last_used` is a day, no finer."""

    id: Id
    kind: str  # api or session
    label: Label
    scopes: tuple[str, ...]
    projects: tuple[str, ...]
    zone: str
    created: Moment
    expires: Moment
    revoked: Moment | None
    last_used: Moment | None


@value
class CreateToken(Message):
    """A token for oneself. `scopes` are permissions or groups; none: what the maker has. No `days`: the longest allowed."""

    label: Label = ""
    scopes: ScopeNames = ()
    projects: ProjectNames = ()
    zone: NameOrNone = ""
    days: Days = 0


@value
class NewToken(Message):
    """`token` is shown this once."""

    id: Id
    token: TokenText
    expires: Moment
    zone: str


@value
class ListTokens(Message):
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Tokens(Message):
    items: tuple[Token, ...]
    next: str = ""


@value
class RevokeToken(Message):
    """`token` is the id. `descendants`: also every token that was made with it."""

    token: Id
    descendants: bool = True


@value
class ExchangeToken(Message):
    """A narrower, short-lived, signed token for a process. `seconds` 0 means as long as the profile allows."""

    scopes: ScopeNames = ()
    projects: ProjectNames = ()
    zone: NameOrNone = ""
    seconds: Annotated[int, Range(least=0, most=900)] = 0


@value
class Pass(Message):
    token: TokenText
    expires: Moment


_TOKENS: Final = Permission(name="token.own", group=Group.SELF)

CREATE_TOKEN: Final = Operation(
    name="token.create",
    summary="Make an API token for yourself, with at most the power of the one you use.",
    method="POST",
    path="tokens",
    request=CreateToken,
    result=NewToken,
    permission=_TOKENS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
LIST_TOKENS: Final = Operation(
    name="token.list",
    summary="List your tokens and sessions.",
    method="GET",
    path="tokens",
    request=ListTokens,
    result=Tokens,
    permission=_TOKENS,
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
REVOKE_TOKEN: Final = Operation(
    name="token.revoke",
    summary="Revoke one of your tokens; it fails from the next call on.",
    method="DELETE",
    path="tokens/{token}",
    request=RevokeToken,
    result=Nothing,
    permission=_TOKENS,
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)
EXCHANGE_TOKEN: Final = Operation(
    name="token.exchange",
    summary="Exchange your token for a short-lived signed one with at most its power.",
    method="POST",
    path="tokens/exchange",
    request=ExchangeToken,
    result=Pass,
    permission=Permission(name="token.exchange", group=Group.SELF),
    scope=Scope.PLATFORM,
    record=Record.CHANGE,
)

# Oneself


@value
class ProjectRole(Message):
    project: str
    role: Role


@value
class Me(Message):
    """`until` is when the token in use ends."""

    id: Id
    kind: str
    name: Login
    display: Display
    platform_roles: tuple[Role, ...]
    roles: tuple[ProjectRole, ...]
    scopes: tuple[str, ...]
    projects: tuple[str, ...]
    zone: str
    until: Moment | None


@value
class Provider(Message):
    """What a command line needs to sign in through the browser: authorisation code, PKCE, loopback address."""

    issuer: str
    client_id: str
    scopes: str


@value
class Providers(Message):
    items: tuple[Provider, ...]


WHOAMI: Final = Operation(
    name="identity.whoami",
    summary="Say who is calling, with which roles, and how the token narrows them.",
    method="GET",
    path="identity",
    request=Nothing,
    result=Me,
    permission=Permission(name="identity.whoami", group=Group.SELF),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)
PROVIDERS: Final = Operation(
    name="identity.providers",
    summary="List the identity providers one can sign in with.",
    method="GET",
    path="identity/providers",
    request=Nothing,
    result=Providers,
    permission=Permission(name="identity.providers", group=Group.PUBLIC),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)

# Service accounts, owned by a project


@value
class Service(Message):
    id: Id
    name: Name
    description: Annotated[str, Text(longest=200)]
    disabled: bool
    roles: tuple[Role, ...]
    created: Moment


@value
class CreateService(Message):
    """`role` is the account's first role in the project."""

    project: Name
    name: Name
    role: Role
    description: Annotated[str, Text(longest=200)] = ""


@value
class OneService(Message):
    project: Name
    service: Name


@value
class ListServices(Message):
    project: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Services(Message):
    items: tuple[Service, ...]
    next: str = ""


@value
class CreateServiceToken(Message):
    """The token reaches its project alone. `zone` is where the account runs; it must be one of the project's."""

    project: Name
    service: Name
    label: Label = ""
    scopes: ScopeNames = ()
    zone: NameOrNone = ""
    days: Days = 0


@value
class ListServiceTokens(Message):
    project: Name
    service: Name
    limit: Limit = 100
    cursor: Cursor = ""


@value
class RevokeServiceToken(Message):
    project: Name
    service: Name
    token: Id


_ADMINISTER_SERVICES: Final = Permission(name="service.administer", group=Group.ADMINISTER)
_READ_SERVICES: Final = Permission(name="service.read", group=Group.READ)

CREATE_SERVICE: Final = Operation(
    name="service.create",
    summary="Add a service account to a project.",
    method="POST",
    path="projects/{project}/services",
    request=CreateService,
    result=Service,
    permission=_ADMINISTER_SERVICES,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_SERVICES: Final = Operation(
    name="service.list",
    summary="List a project's service accounts.",
    method="GET",
    path="projects/{project}/services",
    request=ListServices,
    result=Services,
    permission=_READ_SERVICES,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
SHOW_SERVICE: Final = Operation(
    name="service.show",
    summary="Show one service account.",
    method="GET",
    path="projects/{project}/services/{service}",
    request=OneService,
    result=Service,
    permission=_READ_SERVICES,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
DISABLE_SERVICE: Final = Operation(
    name="service.disable",
    summary="Shut a service account out; every token of it stops at once.",
    method="POST",
    path="projects/{project}/services/{service}/disable",
    request=OneService,
    result=Service,
    permission=_ADMINISTER_SERVICES,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
ENABLE_SERVICE: Final = Operation(
    name="service.enable",
    summary="Let a disabled service account in again. Old tokens stay revoked.",
    method="POST",
    path="projects/{project}/services/{service}/enable",
    request=OneService,
    result=Service,
    permission=_ADMINISTER_SERVICES,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
CREATE_SERVICE_TOKEN: Final = Operation(
    name="service.token",
    summary="Make a token for a service account.",
    method="POST",
    path="projects/{project}/services/{service}/tokens",
    request=CreateServiceToken,
    result=NewToken,
    permission=_ADMINISTER_SERVICES,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)
LIST_SERVICE_TOKENS: Final = Operation(
    name="service.tokens",
    summary="List a service account's tokens.",
    method="GET",
    path="projects/{project}/services/{service}/tokens",
    request=ListServiceTokens,
    result=Tokens,
    permission=_ADMINISTER_SERVICES,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
REVOKE_SERVICE_TOKEN: Final = Operation(
    name="service.revoke-token",
    summary="Revoke a service account's token.",
    method="DELETE",
    path="projects/{project}/services/{service}/tokens/{token}",
    request=RevokeServiceToken,
    result=Nothing,
    permission=_ADMINISTER_SERVICES,
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)

OPERATIONS: Final = (
    CREATE_USER,
    INVITE_USER,
    LIST_USERS,
    SHOW_USER,
    DISABLE_USER,
    ENABLE_USER,
    ERASE_USER,
    CREATE_TOKEN,
    LIST_TOKENS,
    REVOKE_TOKEN,
    EXCHANGE_TOKEN,
    WHOAMI,
    PROVIDERS,
    CREATE_SERVICE,
    LIST_SERVICES,
    SHOW_SERVICE,
    DISABLE_SERVICE,
    ENABLE_SERVICE,
    CREATE_SERVICE_TOKEN,
    LIST_SERVICE_TOKENS,
    REVOKE_SERVICE_TOKEN,
)
