"""Numbers that stand for names in the large tables: 63 bits of a SHA-256, so that nobody has to look a number up."""

import hashlib
from functools import lru_cache


def number_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


@lru_cache(maxsize=10_000)
def metric_number(key: str) -> int:
    return number_of(key)


@lru_cache(maxsize=10_000)
def scope_of(project: str, experiment: int) -> int:
    """An experiment among those of all projects."""
    return number_of(f"{project}/{experiment}")


def dataset_id(name: str, digest: str) -> str:
    """A dataset among those of its project: its name may be longer than what Postgres indexes well."""
    return hashlib.sha256(f"{name}\0{digest}".encode()).hexdigest()[:32]
