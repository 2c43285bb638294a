"""The OpenAPI document, written from the declarations."""

from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from falaj.base.operation import Download, Group, Operation, Record
from falaj.operations.messages import adapter

PROBLEMS = {
    "400": "The request is wrong",
    "401": "No valid token",
    "403": "Not allowed; `rule` names the policy",
    "404": "Not there, or not visible to the caller",
    "409": "In conflict with the present state",
    "413": "Larger than the limit",
    "415": "Wrong content type",
    "429": "Too many requests",
    "503": "A part does not answer now",
    "507": "Out of space",
}
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "rule": {"type": "string"},
    },
}
BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
ANY_BYTES: dict[str, Any] = {"*/*": {}}  # a download says itself what it is: the ledger as JSON lines, metrics as text
KEY_PATTERN = "^[!-~]([ -~]{0,198}[!-~])?$"  # no space at its ends, where HTTP would drop it


def url_of(operation: Operation[Any, Any]) -> str:
    return operation.path if operation.path.startswith("/") else f"/v1/{operation.path}"


def document_of(operations: Iterable[Operation[Any, Any]], version: str) -> dict[str, Any]:
    operations = list(operations)
    wanted: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (op.name, "validation", adapter(op.request)) for op in operations
    ]
    wanted += [(op.name, "serialization", adapter(op.result)) for op in operations if op.result is not Download]
    references, definitions = TypeAdapter.json_schemas(wanted, ref_template="#/components/schemas/{model}")
    schemas = definitions.get("$defs", {})
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        request = _resolved(references[operation.name, "validation"], schemas)
        result = references.get((operation.name, "serialization"))
        paths.setdefault(url_of(operation), {})[operation.method.lower()] = _entry(operation, request, result)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Falaj", "version": version, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": schemas | {"Problem": PROBLEM_SCHEMA},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    resolved: dict[str, Any] = schemas[name] if name else schema
    return resolved


def _entry(operation: Operation[Any, Any], request: dict[str, Any], result: dict[str, Any] | None) -> dict[str, Any]:
    fields, required = request.get("properties", {}), set(request.get("required", ()))
    in_path = set(operation.path_fields)
    in_query = set() if in_body(operation) else fields.keys() - in_path
    entry: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.name.partition(".")[0]],
        "x-permission": operation.permission.name,
        "x-record": operation.record.value,
        "security": [] if operation.permission.group is Group.PUBLIC else [{"token": []}],
        "parameters": [
            {
                "name": name,
                "in": "path" if name in in_path else "query",
                "required": name in in_path or name in required,
                "schema": fields[name],
            }
            for name in fields
            if name in in_path | in_query
        ],
        "responses": {
            "200": {
                "description": "Done",
                "content": ANY_BYTES if result is None else {"application/json": {"schema": result}},
            },
            **{
                status: {
                    "description": text,
                    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
                }
                for status, text in PROBLEMS.items()
            },
        },
    }
    if takes_key(operation):
        entry["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "pattern": "^[ -~]{1,200}$"},
            }
        )
    if operation.takes_bytes:
        entry["requestBody"] = {"required": True, "content": BYTES}
    elif in_body(operation):
        body = {name: schema for name, schema in fields.items() if name not in in_path}
        schema = {"type": "object", "properties": body, "required": sorted(required - in_path), "additionalProperties": False}
        entry["requestBody"] = {"required": bool(required - in_path), "content": {"application/json": {"schema": schema}}}
    return entry


def takes_key(operation: Operation[Any, Any]) -> bool:
    """Whether an idempotency key means anything here: what only reads can be repeated without one."""
    return operation.record in (Record.CHANGE, Record.TELEMETRY)


def in_body(operation: Operation[Any, Any]) -> bool:
    return operation.method in ("POST", "PUT") and not operation.takes_bytes
