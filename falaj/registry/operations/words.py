"""The words that declarations of this room share."""

from typing import Annotated, Final, Literal

from falaj.base.values import Items, Message, Personal, Range, Text, value

LONGEST_NAME: Final = 255
MOST_TAGS: Final = 1000
REPLAY_OF: Final = "falaj.replay_of"  # the tag of a version that was made to see whether it comes out like that one
BROUGHT_OUT: Final = "falaj.brought_out"  # the tag of a version that a pipeline brings out, or did; it says which run
CHAMPION: Final = "champion"  # the alias that is in production, where nobody says otherwise

# Names are free text, so they travel in the query or the body and never in a path; `/` and `:` would break `models:/name/3`.
ModelName = Annotated[str, Text(pattern=r"^[^/:\x00-\x1f\x7f]+$", shortest=1, longest=LONGEST_NAME)]
ModelNameOrNone = Annotated[str, Text(pattern=r"^[^/:\x00-\x1f\x7f]*$", longest=LONGEST_NAME)]
# Neither `latest` nor a word like `v1` or `1`: clients read those as something else. That is held against it where it is used.
AliasName = Annotated[str, Text(pattern=r"^[A-Za-z0-9_-]+$", shortest=1, longest=LONGEST_NAME)]
AliasNameOrNone = Annotated[str, Text(pattern=r"^[A-Za-z0-9_-]*$", longest=LONGEST_NAME)]
VersionNumber = Annotated[int, Range(least=1, most=2**31 - 1)]
# A number that is wished for is bounded more narrowly: the ones after it must still be possible.
WishedNumber = Annotated[int, Range(least=0, most=1_000_000)]
TagKey = Annotated[str, Text(shortest=1, longest=250)]
TagValue = Annotated[str, Text(longest=5000), Personal()]
Description = Annotated[str, Text(longest=65_535), Personal()]
Reason = Annotated[str, Text(longest=2000), Personal()]
Filter = Annotated[str, Text(longest=20_000)]
Order = Annotated[tuple[Annotated[str, Text(longest=1000)], ...], Items(most=20)]
RunIdOrNone = Annotated[str, Text(pattern=r"^([0-9a-f]{32})?$", longest=32)]
# What a version's files are taken from: a run, or a model that a run logged.
HolderOrNone = Annotated[str, Text(pattern=r"^((m-)?[0-9a-f]{32})?$", longest=34)]
FileName = Annotated[str, Text(shortest=1, longest=1000)]
FolderName = Annotated[str, Text(longest=1000)]
Position = Annotated[int, Range(least=0, most=2**53)]
# The four stages of old clients.
Stage = Literal["None", "Staging", "Production", "Archived"]
ACTIVE_STAGES: Final = ("Staging", "Production")  # what is in one of them is in use
MoveKind = Literal["promote", "rollback", "remove", "stage"]


@value
class ModelTag(Message):
    key: TagKey
    value: TagValue = ""


ModelTags = Annotated[tuple[ModelTag, ...], Items(most=MOST_TAGS)]
