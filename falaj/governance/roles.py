"""The roles one can hold in a project or on the platform. What each may do is written in `policies/builtin.cedar`."""

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    VIEWER = "viewer"
    SCIENTIST = "scientist"
    ENGINEER = "engineer"
    OPERATOR = "operator"
    VALIDATOR = "validator"
    AUDITOR = "auditor"
    ADMIN = "admin"


# The scope of a membership is a project's id or, for the platform itself, this word; ids are 32 hex digits, so they never meet.
PLATFORM: Final = "platform"
# Holders of these platform roles may know which projects exist; what they may do there is for policy to say.
OVERSEERS: Final = frozenset({Role.ADMIN, Role.AUDITOR})
