"""`falaj predict`: ask an endpoint from the command line."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from falaj.base.errors import Invalid, Unavailable
from falaj.cli.choosing import InProject, project_of
from falaj.cli.command import Commands
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal, read_text
from falaj.serving.operations.endpoints import SHOW_ENDPOINT, OneEndpoint
from falaj.serving.operations.keys import ASK_FOR_TOKEN, AskForToken

if TYPE_CHECKING:
    from falaj.client import predictions
else:
    predictions = Deferred("falaj.client.predictions")

commands = Commands("Serving models.")


@commands.command("predict")
def predict(
    terminal: Terminal,
    endpoint: Annotated[str, typer.Argument(help="The endpoint's name.", show_default=False)],
    record: Annotated[
        str,
        typer.Argument(help="A record or a list of them, as JSON; @FILE reads a file, @- the input.", show_default=False),
    ],
    key: Annotated[str, typer.Option(help="Holds a caller to one arm of a split.", show_default=False)] = "",
    revision: Annotated[int, typer.Option(help="Ask this revision, whatever the split.", min=0, show_default=False)] = 0,
    id: Annotated[str, typer.Option(help="What you call it; labels find it by that.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """Ask for predictions and print them.

    Example: falaj predict fraud @payments.json --project fraud
    """
    chosen = project_of(terminal, project)
    records = _records(read_text(record[1:]) if record.startswith("@") else record)
    known = terminal.call(SHOW_ENDPOINT, OneEndpoint(project=chosen, endpoint=endpoint))
    if not known.urls:
        raise Unavailable(f"No serving plane answers for {endpoint} now; look at `falaj endpoint show {endpoint}`.")
    token = terminal.call(ASK_FOR_TOKEN, AskForToken(project=chosen, endpoint=endpoint)).token
    planes = predictions.Planes(known.urls, token, trust=terminal.access.trust_in_planes(known.certificates))
    answer = planes.predict(endpoint, records, key=key, revision=revision, id=id)
    terminal.told(answer, "\n".join(json.dumps(one) for one in answer["predictions"]))
    if unknown := answer.get("unknown_entities"):
        terminal.say(f"{unknown:,} of them are of entities of which nothing is known: features were null, and counts 0.")


def _records(text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Invalid(f"That is not JSON: {error}.") from None
    if isinstance(found, dict) and isinstance(found.get("records"), list):
        found = found["records"]
    return found if isinstance(found, list) else [found]
