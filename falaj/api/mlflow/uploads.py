"""Large artifacts in parts: begun, sent in any order, joined. Parts come to this server like everything else.

MLflow's client sends parts without its own credentials, because elsewhere they go to a bucket. So each upload gets a pass:
short-lived, for this project and for writing artifacts alone, handed over in the headers the client is told to send.
"""

import re
from typing import Annotated, Final

from falaj.api.mlflow.adapters import Answer, Document, Visit, perform
from falaj.api.mlflow.artifacts import writable
from falaj.api.mlflow.bodies import Empty, body
from falaj.api.mlflow.locations import Held, location_of, name_of
from falaj.api.mlflow.words import required
from falaj.base.errors import Invalid, NotFound
from falaj.base.values import ID_PATTERN, Items, Range
from falaj.governance.identity.operations import EXCHANGE_TOKEN, ExchangeToken
from falaj.tracking.operations import artifacts as ops

PARTS_AT: Final = "/api/2.0/mlflow-artifacts/mpu/parts"
_TAG: Final = re.compile(r'"?([0-9a-f]{16,128})-([0-9]{1,16})"?')


@body
class Create:
    path: str
    num_parts: Annotated[int, Range(least=1, most=10_000)] = 1


@body
class PartBody:
    part_number: Annotated[int, Range(least=1, most=10_000)]
    etag: str = ""


@body
class Complete:
    path: str
    upload_id: str = ""
    parts: Annotated[tuple[PartBody, ...], Items(most=10_000)] = ()


@body
class Abort:
    path: str = ""
    upload_id: str = ""


def _create(visit: Visit, sent: Create) -> Document:
    place = _place(visit, sent.path)
    begun = visit.call(ops.BEGIN_UPLOAD, ops.BeginUpload(project=visit.project, holder=place.holder, name=place.name))
    wish = ExchangeToken(scopes=(ops.PUT_PART.permission.name,), projects=(visit.project,))
    headers = {
        "Authorization": f"Bearer {visit.call(EXCHANGE_TOKEN, wish).token}",
        "X-MLFLOW-WORKSPACE": visit.project,
    }
    return {
        "upload_id": begun.id,
        "credentials": [
            {"url": f"{visit.address}{PARTS_AT}/{begun.id}/{number}", "part_number": number, "headers": headers}
            for number in range(1, sent.num_parts + 1)
        ],
    }


def _put_part(visit: Visit, _sent: Empty) -> Answer:
    upload, number = visit.path
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and 1 <= int(number) <= 10_000):
        raise Invalid(f"A part is numbered from 1 to 10000, not {number[:100]!r}.")
    part = visit.call(ops.PUT_PART, ops.PutPart(project=visit.project, upload=_upload_of(upload), part=int(number)))
    return Answer(headers=(("etag", f'"{part.digest}-{part.size}"'),))


def _complete(visit: Visit, sent: Complete) -> Document:
    _place(visit, sent.path)
    parts = tuple(_part(part) for part in sorted(sent.parts, key=lambda part: part.part_number))
    if not parts:
        required("", "parts")
    finish = ops.FinishUpload(project=visit.project, upload=_upload_of(sent.upload_id), parts=parts)
    visit.call(ops.FINISH_UPLOAD, finish)
    return {}


def _abort(visit: Visit, sent: Abort) -> Document:
    visit.call(ops.ABORT_UPLOAD, ops.OneUpload(project=visit.project, upload=_upload_of(sent.upload_id)))
    return {}


def _place(visit: Visit, local: str) -> Held:
    """The folder is in the address; the file's name is the end of the path that it has with the client."""
    place = writable(location_of(visit.path))
    file = re.split(r"[/\\]", required(local, "path"))[-1]
    return Held(holder=place.holder, name=name_of([*place.name.split("/"), file] if place.name else [file]))


def _part(sent: PartBody) -> ops.Part:
    if (tag := _TAG.fullmatch(sent.etag)) is None:
        raise Invalid(f"Part {sent.part_number} has not the ETag that it was answered with.")
    return ops.Part(part=sent.part_number, size=int(tag[2]), digest=tag[1])


def _upload_of(text: str) -> str:
    if not re.fullmatch(ID_PATTERN, required(text, "upload_id")):
        raise NotFound(f"There is no upload {text[:100]!r}.")
    return text


_AT: Final = "/api/2.0/mlflow-artifacts/mpu"
ROUTES: Final = (
    ("POST", f"{_AT}/create/{{path*}}", perform(ops.BEGIN_UPLOAD.name, Create, _create)),
    ("PUT", f"{PARTS_AT}/{{upload}}/{{part}}", perform(ops.PUT_PART.name, Empty, _put_part, takes_bytes=True)),
    ("POST", f"{_AT}/complete/{{path*}}", perform(ops.FINISH_UPLOAD.name, Complete, _complete)),
    ("POST", f"{_AT}/abort/{{path*}}", perform(ops.ABORT_UPLOAD.name, Abort, _abort)),
)
