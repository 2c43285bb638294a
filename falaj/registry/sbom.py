"""A version's software bill of materials: CycloneDX 1.6, the same bytes for the same version."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.registry.mlmodel import Field, ModelDescription, Tensor
from falaj.registry.operations.versions import VersionFile
from falaj.registry.requirements import Package, read_needs

MEDIA_TYPE: Final = "application/vnd.cyclonedx+json; version=1.6"
_MODEL: Final = "model"


@value
class Subject:
    """The version that the bill is for. `id` is that of its row, 32 hex digits."""

    id: str
    name: str
    version: str
    created: Moment
    description: str = ""


def bill(
    subject: Subject,
    files: Sequence[VersionFile],
    requirements: Mapping[str, bytes],
    description: ModelDescription | None = None,
) -> bytes:
    """`requirements` holds the content of those of `requirements.REQUIREMENTS` that the version has. What in them cannot be
    read is left out, and named in the model's properties; nothing is raised for it."""
    needs = read_needs(requirements)
    python = needs.python or (description.python_version if description else "")
    components = [_package(package) for package in needs.packages]
    if python:
        components.append(_python(python))
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.UUID(subject.id).urn,
        "version": 1,
        "metadata": {
            "timestamp": str(subject.created),
            "tools": {"components": [{"type": "application", "name": "falaj"}]},
            "component": _model(subject, files, description, needs.unread),
        },
        "components": components,
        "dependencies": [{"ref": _MODEL, "dependsOn": [component["bom-ref"] for component in components]}],
    }
    return json.dumps(document, sort_keys=True, indent=2).encode()


def _model(
    subject: Subject, files: Sequence[VersionFile], description: ModelDescription | None, unread: Sequence[str]
) -> dict[str, Any]:
    said = {
        "description": subject.description,
        "modelCard": _card(description),
        "properties": list(_properties(description, unread)),
        "components": [_file(file) for file in sorted(files, key=lambda file: file.name)],
    }
    named = {"type": "machine-learning-model", "bom-ref": _MODEL, "name": subject.name, "version": subject.version}
    return named | {field: content for field, content in said.items() if content}


def _file(file: VersionFile) -> dict[str, Any]:
    return {
        "type": "file",
        "bom-ref": f"file:{quote(file.name)}",
        "name": file.name,
        "hashes": [{"alg": "SHA-256", "content": file.digest}],
    }


def _package(package: Package) -> dict[str, Any]:
    purl = f"pkg:{package.ecosystem}/{quote(package.name, safe='')}"
    purl += f"@{quote(package.version, safe='')}" if package.version else ""
    properties = {"falaj:source": package.source, "falaj:wanted": package.wanted}
    component = {
        "type": "library",
        "bom-ref": purl if package.version or not package.wanted else f"{purl}#{quote(package.wanted, safe='')}",
        "name": package.name,
        "purl": purl,
        "scope": "required",
        "properties": [{"name": name, "value": text} for name, text in properties.items() if text],
    }
    return component | ({"version": package.version} if package.version else {})


def _python(version: str) -> dict[str, Any]:
    purl = f"pkg:generic/python@{quote(version, safe='')}"
    return {"type": "platform", "bom-ref": purl, "name": "python", "version": version, "purl": purl}


def _card(description: ModelDescription | None) -> dict[str, Any]:
    """What the model takes and gives, where it says so."""
    if description is None or description.signature is None:
        return {}
    signature = description.signature
    parameters = {"inputs": [_format(one) for one in signature.inputs], "outputs": [_format(one) for one in signature.outputs]}
    given = {name: formats for name, formats in parameters.items() if formats}
    return {"modelParameters": given} if given else {}


def _format(field: Field) -> dict[str, str]:
    if isinstance(field, Tensor):
        kind = f"tensor {field.dtype} [{', '.join('?' if length < 0 else str(length) for length in field.shape)}]"
    else:
        kind = field.type if field.required else f"{field.type}, optional"
    return {"format": f"{field.name}: {kind}" if field.name else kind}


def _properties(description: ModelDescription | None, unread: Sequence[str]) -> Iterator[dict[str, str]]:
    if description is not None:
        yield from ({"name": "falaj:flavour", "value": flavour.name} for flavour in description.flavours)
        if description.mlflow_version:
            yield {"name": "falaj:mlflow", "value": description.mlflow_version}
    yield from ({"name": "falaj:unread", "value": where} for where in unread)
