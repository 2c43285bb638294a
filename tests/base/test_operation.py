import dataclasses

import pytest

from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Message, Name, value


@value
class Dig(Message):
    project: Name
    well: Name


@value
class Roam(Message):
    well: Name


GOOD = Operation(
    name="wells.dig",
    summary="Dig a well",
    method="POST",
    path="projects/{project}/wells/{well}",
    request=Dig,
    result=Dig,
    permission=Permission(name="wells.dig", group=Group.WRITE),
    scope=Scope.PROJECT,
    record=Record.CHANGE,
)


def test_an_operation_without_a_permission_cannot_be_constructed():
    fields = {field.name: getattr(GOOD, field.name) for field in dataclasses.fields(GOOD)}
    with pytest.raises(TypeError, match="permission"):
        Operation(**{**fields, "permission": None})
    del fields["permission"]
    with pytest.raises(TypeError, match="permission"):
        Operation(**fields)


@pytest.mark.parametrize("name", ["", "wells", "Wells.dig", "wells.", ".dig", "wells dig", "wells.*", "wells.dig\n"])
def test_a_permission_is_named_like_noun_verb(name):
    with pytest.raises(ValueError, match=r"noun\.verb"):
        Permission(name=name, group=Group.READ)


def test_a_path_names_only_fields_of_the_request():
    assert GOOD.path_fields == ("project", "well")
    with pytest.raises(TypeError, match="depth"):
        dataclasses.replace(GOOD, path="projects/{project}/wells/{depth}")


def test_a_project_operation_names_its_project():
    with pytest.raises(TypeError, match="project"):
        dataclasses.replace(GOOD, path="wells/{well}", request=Roam)


def test_a_change_cannot_be_a_get():
    with pytest.raises(TypeError, match="GET"):
        dataclasses.replace(GOOD, method="GET")
