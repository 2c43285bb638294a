"""What leaves the platform with an endpoint: its files, its state for a host of its own, the secret of its callbacks."""

from typing import Annotated, Final

from falaj.base.operation import Download, Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, Secret, Text, value
from falaj.serving.operations.endpoints import OneEndpoint
from falaj.serving.operations.planes import SignedState, TrustedKey
from falaj.serving.operations.words import EndpointName, RevisionNumber, RevisionNumberOrNone


@value
class ReadRevisionFile(Message):
    """As it was signed when the revision was made, or not at all."""

    project: Name
    endpoint: EndpointName
    revision: RevisionNumber
    file: Annotated[str, Text(shortest=1, longest=1000)]


@value
class ReadBundle(Message):
    """Without a number the revision that most calls go to."""

    project: Name
    endpoint: EndpointName
    revision: RevisionNumberOrNone = 0


@value
class Bundle(Message):
    """What a host needs that shall answer without ever asking again: a state with this endpoint and one revision of it alone,
    and the keys that it is believed by."""

    state: SignedState
    keys: tuple[TrustedKey, ...]


@value
class CallbackSecret(Message):
    """Verifies what comes to a callback, as "Standard Webhooks" has it: `whsec_` and base64."""

    secret: Annotated[str, Text(longest=200), Secret()]


_EXPORT: Final = Permission(name="endpoint.export", group=Group.DEPLOY)
_CALLBACK_SECRET: Final = Permission(name="endpoint.callback-secret", group=Group.DEPLOY)

READ_REVISION_FILE: Final = Operation(
    name="endpoint.file",
    summary="Fetch a file of a revision, to serve it elsewhere.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/revisions/{revision}/file",
    request=ReadRevisionFile,
    result=Download,
    permission=_EXPORT,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
READ_BUNDLE: Final = Operation(
    name="endpoint.bundle",
    summary="The signed state of one endpoint alone, for a host without a control plane.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/bundle",
    request=ReadBundle,
    result=Bundle,
    permission=_EXPORT,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)
READ_CALLBACK_SECRET: Final = Operation(
    name="endpoint.callback-secret",
    summary="What receivers verify an endpoint's callbacks with.",
    method="GET",
    path="projects/{project}/endpoints/{endpoint}/callback-secret",
    request=OneEndpoint,
    result=CallbackSecret,
    permission=_CALLBACK_SECRET,
    scope=Scope.PROJECT,
    record=Record.SENSITIVE_READ,
)

OPERATIONS: Final = (READ_REVISION_FILE, READ_BUNDLE, READ_CALLBACK_SECRET)
