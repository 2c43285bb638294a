"""The form that tries an endpoint: records in, a prediction out.

The reader's own short-lived token is asked for, used once by this server, and never shown.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from falaj.base.errors import Unavailable
from falaj.base.operation import Operation
from falaj.serving.operations.endpoints import SHOW_ENDPOINT, OneEndpoint
from falaj.serving.operations.keys import EndpointToken
from falaj.web.bodies import Fields
from falaj.web.forms import Mistyped, request_from
from falaj.web.models.version import Port
from falaj.web.serving.predictor import Prediction, Question
from falaj.web.visits import Visit

LONGEST_KEY: Final = 200
_EXAMPLES: Final[dict[str, Any]] = {"string": "", "boolean": False, "long": 0, "integer": 0, "datetime": "2026-01-01T00:00:00"}


def token_wanted(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    """The request for a token; what was typed is looked at first, so that nothing is asked for in vain."""
    question(fields)
    return request_from(operation, {}, path)


def tried(visit: Visit, given: EndpointToken) -> Prediction:
    """What the endpoint says, asked where the platform says that it answers."""
    asked = OneEndpoint(project=visit.project, endpoint=visit.path["endpoint"])
    endpoint = visit.call(SHOW_ENDPOINT, asked)
    if not endpoint.url:
        raise Unavailable(f"No serving plane answers for {endpoint.name} now. {' '.join(endpoint.problems)}".strip())
    body, key, revision = question({name: [text] for name, text in visit.submitted.items()})
    return visit.predictor.predict(
        Question(
            url=endpoint.url,
            certificates=endpoint.certificates,
            token=given.token,
            endpoint=endpoint.name,
            body=body,
            key=key,
            revision=revision,
        )
    )


def question(fields: Fields) -> tuple[bytes, str, int]:
    """The body to send, the sticky key and the revision, 0 for whichever the split gives. Raises `Mistyped`."""
    text, key, revision = (fields.get(name, [""])[0].strip() for name in ("records", "key", "revision"))
    if len(key) > LONGEST_KEY or not key.isascii() or not (key.isprintable() or not key):
        raise Mistyped({"key": f"Plain letters, digits and signs; at most {LONGEST_KEY}."})
    if revision and not (revision.isascii() and revision.isdigit() and len(revision) < 10):
        raise Mistyped({"revision": "Choose one of the revisions."})
    try:
        said = json.loads(text)
    except RecursionError:
        raise Mistyped({"records": "This is nested too deeply."}) from None
    except ValueError as error:
        raise Mistyped({"records": f"This is not JSON: {error}."}) from None
    if not isinstance(said, (dict, list)):
        raise Mistyped({"records": 'A record is an object: {"column": 1.0}. Several of them are a list.'})
    body = f'{{"records": {text}}}' if isinstance(said, list) else text
    return body.encode(), key, int(revision or 0)


def example(inputs: Sequence[Port], *, keys: Sequence[str] = (), looked: Sequence[str] = ()) -> str:
    """A record to begin with: the model's columns where they are known. Of those that are looked up (`looked`, with their view
    before them), the keys of the entity instead."""
    if not inputs or any(not port.name or port.type == "tensor" for port in inputs):
        return '{"rows": [[0.0]]}'
    left_out = {one.partition(":")[2] for one in looked}
    given = {port.name: _EXAMPLES.get(port.type, 0.0) for port in inputs if port.name not in left_out}
    return json.dumps(dict.fromkeys(keys, 1) | given, indent=1, ensure_ascii=False)
