"""An edge bundle: one folder that `falaj serve` answers from, without any control plane, until somebody stops it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Corrupt
from falaj.base.files import write_durably
from falaj.serving.operations.exports import Bundle
from falaj.serving.plane.joining import Join, write_join
from falaj.serving.plane.keeping import StateFile, verified
from falaj.serving.plane.models import SealedModels
from falaj.serving.plane.places import PlaneHome

_README: Final = """\
{name}, revision {revision}: {model} version {version}, as of {issued}.

Start it, on any host that has Falaj (pip install falaj):

    falaj serve --directory {folder} --host 0.0.0.0 --port 8500

It answers REST and gRPC on that port, like any Falaj endpoint, and never asks anybody:

    curl http://HOST:8500/v2/endpoints/{name}/predict -H "authorization: Bearer TOKEN" -d '{{"column": 1.0}}'

TOKEN is a key of the project that this came from:

    falaj endpoint key create NAME --endpoint {name} --project {project}

Keys that were made before or after this was written are good here until they expire. One that is revoked later goes on being
good here: this host does not hear of it. Write the bundle again to change the model, the keys or the options.

The model is sealed with the key in the folder `keys`. Whoever has both has the model: give the folder to nobody else, or move
`keys` to {folder}.keys beside this folder and carry it there by another way. Nothing that was changed is served.
"""


def write(directory: Path, bundle: Bundle, contents: Mapping[str, bytes]) -> None:
    """`contents` are the files of the bundle's one revision. Raises `Corrupt` where the bundle is not what its keys sign."""
    if directory.exists() and any(directory.iterdir()):
        raise Conflict(f"{directory} is not empty; name a folder that is, or a new one.")
    trusted = {key.id: bytes.fromhex(key.public) for key in bundle.keys}
    state = verified(bundle.state, trusted)
    if len(state.endpoints) != 1:
        raise Corrupt("The bundle holds more than the one endpoint; it is not used.")
    (endpoint,) = state.endpoints
    (revision,) = endpoint.revisions
    home = PlaneHome(path=directory, keys=directory / "keys")
    home.prepare()
    key = home.key()
    models = SealedModels(home.models, key)
    for file in revision.files:
        models.keep(file, [contents[file.name]])
    StateFile(home.state, trusted, key).write(bundle.state)
    keys = {key.id: key.public for key in bundle.keys}
    write_join(home.join, Join(name=endpoint.name, zone=state.zone, url="", token="", keys=keys))  # nosec B106 - there is none
    told = _README.format(
        name=endpoint.name,
        revision=revision.number,
        model=revision.model,
        version=revision.version,
        issued=Moment(state.issued),
        folder=directory.name,
        project=endpoint.project_name,
    )
    write_durably(directory / "README.txt", told.encode())
