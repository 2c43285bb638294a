"""Folders of files, here and in buckets: where they are, and what opens them.

Keys of a bucket come from the environment or AWS's own files, never from an address, which others may see.
"""

import os
from typing import Any

import pyarrow.fs as pafs

from falaj.base.errors import Invalid
from falaj.tables.connectors.addresses import Address
from falaj.tables.connectors.asking import Asked


def bucket_files(address: Address, asked: Asked) -> tuple[pafs.FileSystem, str]:
    """The bucket's file system, and the folder in it."""
    _refuse_keys(address)
    endpoint = endpoint_of(asked)
    options: dict[str, Any] = {"connect_timeout": 10.0, "request_timeout": 60.0}
    if endpoint:
        options |= {"endpoint_override": endpoint}
    if region := _region(bool(endpoint)):
        options |= {"region": region}
    return pafs.S3FileSystem(**options), (address.host + address.path).rstrip("/")


def bucket_options(address: Address, asked: Asked) -> dict[str, str]:
    """The same for libraries that have their own way to buckets; they read the keys from the environment themselves."""
    _refuse_keys(address)
    endpoint = endpoint_of(asked)
    options = {"AWS_ENDPOINT_URL": endpoint} if endpoint else {}
    if endpoint.startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    if region := _region(bool(endpoint)):
        options["AWS_REGION"] = region
    return options


def endpoint_of(asked: Asked) -> str:
    return asked.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3", "") or os.environ.get("AWS_ENDPOINT_URL", "")


def _region(elsewhere: bool) -> str:
    """A service that is not AWS has no region, and its clients want one."""
    return os.environ.get("AWS_REGION", "") or os.environ.get("AWS_DEFAULT_REGION", "") or ("us-east-1" if elsewhere else "")


def _refuse_keys(address: Address) -> None:
    if address.secrets or "@" in address.whole:
        raise Invalid("Keys do not belong into the address of a bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    if not address.host:
        raise Invalid("The address of a folder in a bucket is s3://bucket/folder.")
    if address.options:
        raise Invalid(f"{address.shown} takes no {', '.join(address.options)}; the endpoint is said by --endpoint.")
