"""What is wrong with a request, in plain words: the validating library speaks to programmers."""

from typing import Any, Final

from pydantic import ValidationError

from falaj.base.values import ID_PATTERN, NAME_OR_NONE_PATTERN, NAME_PATTERN, SAID_OF_PATTERNS

MOST_SENTENCES: Final = 5
LONGEST_PLACE: Final = 100
_NAME: Final = "takes small letters, digits, '.', '_' and '-', at most 100, beginning with a letter or a digit"
_PATTERNS: Final = {
    NAME_PATTERN: _NAME,
    NAME_OR_NONE_PATTERN: _NAME,
    ID_PATTERN: "must be an id, 32 hexadecimal digits",
    r"^(m-)?[0-9a-f]{32}$": "must be the id of a run, 32 hexadecimal digits, or of a logged model, `m-` before them",
    r"^m-[0-9a-f]{32}$": "must be the id of a logged model: `m-` and 32 hexadecimal digits",
    r"^[A-Za-z0-9_-]+$": "takes letters, digits, '_' and '-'",
    r"^[^/:\x00-\x1f\x7f]+$": "takes any characters but '/', ':' and control characters",
    r"^[^\x00]*$": "must not hold a NUL character",
}
MISSING: Final = "is missing"
_WORDS: Final = {
    "missing": MISSING,
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "may have at most {max_length} characters",
    "too_short": "must have {min_length} or more",
    "too_long": "may have {max_length} at most",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "may be at most {le}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "literal_error": "must be {expected}",
    "unexpected_keyword_argument": "is not a field of this request",
}


def wrong_fields(error: ValidationError) -> list[tuple[str, str]]:
    """The first fields that are wrong, each with what is wrong about it; what was given is not repeated."""
    found = error.errors(include_url=False, include_input=False)[:MOST_SENTENCES]
    return [(".".join(str(part) for part in entry["loc"])[:LONGEST_PLACE], _words(dict(entry))) for entry in found]


def in_words(entry: dict[str, Any]) -> str | None:
    """What is wrong, as a sentence about the field goes on; None where we have no words of our own for it."""
    context = entry.get("ctx", {})
    if entry["type"] == "string_pattern_mismatch":
        pattern = context.get("pattern", "")
        return SAID_OF_PATTERNS.get(pattern) or _PATTERNS.get(pattern) or f"must be written like {pattern}"
    words = _WORDS.get(entry["type"])
    return None if words is None else words.format(**context)


def _words(entry: dict[str, Any]) -> str:
    if (words := in_words(entry)) is not None:
        return words
    message = str(entry["msg"])[:200]
    return message[:1].lower() + message[1:]
