"""What is wrong with a request is said in words of our own."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from falaj.jobs.operations.jobs import OneJob
from falaj.jobs.operations.queues import ApplyQueues
from falaj.operations.messages import adapter
from falaj.registry.operations.promotions import Promote
from falaj.tracking.operations.artifacts import ListArtifacts
from falaj.wire.wording import wrong_fields

GOOD = {"project": "fraud", "model": "card fraud", "alias": "champion", "version": 3}


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (Promote, GOOD | {"alias": "my alias"}, ("alias", "takes letters, digits, '_' and '-'")),
        (Promote, GOOD | {"model": "a/b"}, ("model", "takes any characters but '/', ':' and control characters")),
        (Promote, GOOD | {"version": "three"}, ("version", "must be a whole number")),
        (Promote, {"project": "fraud"}, ("model", "is missing")),
        (Promote, GOOD | {"colour": "red"}, ("colour", "is not a field of this request")),
        (ListArtifacts, {"project": "Fraud", "holder": "0" * 32}, ("project", "takes small letters, digits")),
        (ListArtifacts, {"project": "fraud", "holder": "nosuch"}, ("holder", "must be the id of a run")),
        (ListArtifacts, {"project": "fraud", "holder": "0" * 32, "limit": 0}, ("limit", "must be at least 1")),
        (OneJob, {"project": "fraud", "job": "1dbc"}, ("job", "must be a job's id, or six or more of the last digits of it")),
        (ApplyQueues, {"queues": []}, ("queues", "must have 1 or more")),
    ],
)
def test_a_wrong_field_is_named_with_what_it_takes(kind: Any, given: dict[str, Any], said: tuple[str, str]) -> None:
    with pytest.raises(ValidationError) as caught:
        adapter(kind).validate_json(json.dumps(given))
    field, words = wrong_fields(caught.value)[0]
    assert field == said[0]
    assert words.startswith(said[1])
