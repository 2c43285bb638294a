"""Plain records with column names, made into the tensors a model wants, and its answers made into predictions by row."""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final

import msgspec

from falaj.base.errors import Invalid, TooLarge
from falaj.runtimes.engine import Array, TensorSpec
from falaj.serving.plane.asking import Answer, Described, Given
from falaj.serving.plane.rest.codec import SLICE, Body, finite_or_word
from falaj.serving.plane.rest.datatypes import DATATYPES, Datatype, check_elements, to_list

_ROWS_MOST: Final = 1_000_000
_NAMED_MOST: Final = 20
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_NAN: Final = float("nan")
_OPENING: Final = b'{"predictions":'


def read_records(body: Body, described: Described, most_json: int) -> list[Given]:
    """`{"records": [{...}, ...]}`, `{"columns": [...], "rows": [[...], ...]}`, or one record by itself."""
    if len(body) > most_json:
        raise TooLarge(f"the request has {len(body)} bytes of JSON; at most {most_json} are taken: send tensors in binary")
    try:
        said = _decode(body)
    except RecursionError:
        raise Invalid("the request is nested too deeply") from None
    except ValueError as error:
        raise Invalid(f"the request is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise Invalid(f"the request is not an object. {_form(described)}")
    return _columns(said, described)


def _columns(said: dict[str, Any], described: Described) -> list[Given]:
    names = expected_columns(described)
    if isinstance(said.get("rows"), list) and not (set(said) - {"rows", "columns"}):
        rows = _rows_by_name(said, names, described) if said.get("columns") is not None else said["rows"]
        return _tensors(_checked_rows(rows, names, described), names, described)
    records = said["records"] if isinstance(said.get("records"), list) and len(said) == 1 else [said]
    return _tensors([_row(record, names, place, described) for place, record in enumerate(records)], names, described)


def expected_columns(described: Described) -> tuple[str, ...]:
    """The signature's columns; without one, the names of the inputs: then a record holds one value, or one list, for each."""
    return described.columns or tuple(one.name for one in described.inputs)


def _row(record: Any, names: Sequence[str], place: int, described: Described) -> list[Any]:
    if not isinstance(record, dict):
        raise Invalid(f"record {place} is not an object. {_form(described)}")
    if len(record) == len(names):
        try:
            return [record[name] for name in names]
        except KeyError:
            pass
    known = set(names)
    missing = [name for name in names if name not in record]
    unknown = [name for name in record if name not in known]
    faults = []
    if missing:
        faults.append(f"lacks {_listed(missing)}")
    if looked := [name for name in unknown if name in described.looked_up]:
        faults.append(f"has {_listed(looked)}, which this endpoint looks up by itself")
    if unknown := [name for name in unknown if name not in described.looked_up]:
        faults.append(f"has {_listed(unknown)}, which the model does not know")
    raise Invalid(f"record {place} {' and '.join(faults)}. {_form(described)}")


def _rows_by_name(said: dict[str, Any], names: Sequence[str], described: Described) -> list[Any]:
    """The rows with their values in the model's order."""
    given = said["columns"]
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise Invalid(f"columns is not a list of names. {_form(described)}")
    if len(set(given)) != len(given):
        raise Invalid(f"columns names one of {_listed(given)} twice")
    if given == list(names):
        return list(said["rows"])
    order = _row({name: place for place, name in enumerate(given)}, names, 0, described)
    rows = []
    for place, row in enumerate(said["rows"]):
        if not isinstance(row, list) or len(row) != len(given):
            raise Invalid(f"row {place} does not have one value for each of the {len(given)} columns")
        rows.append([row[at] for at in order])
    return rows


def _checked_rows(rows: list[Any], names: Sequence[str], described: Described) -> list[list[Any]]:
    for place, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(names):
            raise Invalid(f"row {place} does not have one value for each of the {len(names)} columns. {_form(described)}")
    return rows


def tensors_of_rows(rows: list[list[Any]], described: Described) -> list[Given]:
    """As records would be read, from values in the order of the model's columns. Raises `Invalid` for what those cannot be."""
    return _tensors(rows, expected_columns(described), described)


def _tensors(rows: list[list[Any]], names: Sequence[str], described: Described) -> list[Given]:
    inputs, count = described.inputs, len(rows)
    if not count:
        raise Invalid(f"the request has no records. {_form(described)}")
    if count > _ROWS_MOST:
        raise TooLarge(f"the request has {count} records; at most {_ROWS_MOST} are taken")
    if len(inputs) == 1 and described.columns and (len(names) > 1 or inputs[0].name != names[0]):
        spec = inputs[0]
        flat = [element for row in rows for element in row]
        return [Given(spec.name, spec.datatype, [count, len(names)], _checked(flat, spec, lambda at: names[at % len(names)]))]
    by_name = {spec.name: spec for spec in inputs}
    if set(by_name) != set(names):
        raise Invalid(
            f"endpoint {described.name!r} takes the tensors {_listed(list(by_name))}, "
            "which are not its columns: use /infer with tensors"
        )
    return [_one_column(by_name[name], [row[place] for row in rows], count) for place, name in enumerate(names)]


def _one_column(spec: TensorSpec, elements: list[Any], count: int) -> Given:
    """A tensor that holds one column, or of a model without columns one whole input: then each record gives a list."""
    shape = [count, *spec.shape[1:]]
    width = prod(shape[1:])
    if width != 1 or any(type(one) is list for one in elements):
        elements, shape = _unfold(elements, spec, count)
    return Given(spec.name, spec.datatype, shape, _checked(elements, spec, lambda _at: spec.name))


def _unfold(elements: list[Any], spec: TensorSpec, count: int) -> tuple[list[Any], list[int]]:
    shape = [count]
    for length in spec.shape[1:]:
        if not all(type(one) is list for one in elements):
            raise Invalid(f"column {spec.name!r} wants a list of {length if length >= 0 else 'numbers'} for each record")
        found = length if length >= 0 else len(elements[0]) if elements else 0
        if any(len(one) != found for one in elements):
            raise Invalid(f"column {spec.name!r} has lists that are not {found} long")
        elements = [element for one in elements for element in one]
        shape.append(found)
    return elements, shape


def _checked(elements: list[Any], spec: TensorSpec, column: Callable[[int], str]) -> list[Any]:
    """As `check_elements`, with a missing value (null) where the model can take one, and the column named where it cannot."""
    datatype = DATATYPES.get(spec.datatype)
    if datatype is None:
        raise Invalid(f"input {spec.name!r} has datatype {spec.datatype!r}, which records cannot hold")
    if datatype.kind == "float":
        elements = [_NAN if one is None else float(one) if type(one) is bool else one for one in elements]
    try:
        return check_elements(elements, datatype, spec.name)
    except Invalid:
        for at, one in enumerate(elements):
            _check_one(one, datatype, spec, column(at))
        raise


def _check_one(element: Any, datatype: Datatype, spec: TensorSpec, column: str) -> None:
    try:
        check_elements([element], datatype, spec.name)
    except Invalid:
        shown = "null" if element is None else _encode(element).decode()[:60]
        raise Invalid(f"column {column!r} is {spec.datatype} and cannot be {shown}") from None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:100]) for name in names[:_NAMED_MOST])
    return shown if len(names) <= _NAMED_MOST else f"{shown} and {len(names) - _NAMED_MOST} more"


def _form(described: Described) -> str:
    return f'Expected is {{"records": [{{...}}, ...]}} with the columns {_listed(expected_columns(described))}'


def write_predictions(answer: Answer) -> bytes:
    """By row: the value or list of the one output, or an object with all of them."""
    return b"".join((_OPENING, _encode(_predictions(answer, answer.arrays)), _ending(answer)))


def slices_of_predictions(answer: Answer) -> Iterator[bytes]:
    """The same, in slices that are to be joined."""
    arrays = answer.arrays
    rows = {array.shape[0] if array.shape else -1 for array in arrays}
    count = rows.pop()
    if rows or count < 1:
        yield write_predictions(answer)
        return
    step = max(1, SLICE * count // sum(array.size for array in arrays))
    yield _OPENING + b"["
    for at in range(0, count, step):
        written = _encode(_predictions(answer, [array[at : at + step] for array in arrays]))[1:-1]
        yield written + b"," if at + step < count else written
    yield b"]" + _ending(answer)


def _ending(answer: Answer) -> bytes:
    said: dict[str, Any] = {"model": answer.model, "version": answer.version, "revision": answer.revision}
    said |= {"variant": answer.variant} if answer.variant else {}
    return b"," + _encode(said | {"unknown_entities": answer.unknown} if answer.unknown else said)[1:]


def _predictions(answer: Answer, arrays: Sequence[Array]) -> list[Any]:
    by_output = []
    for name, datatype, array in zip(answer.names, answer.datatypes, arrays, strict=True):
        by_output.append(_by_row(to_list(array, datatype, name), array.shape))
    if len(by_output) == 1:
        return by_output[0]
    return [dict(zip(answer.names, row, strict=True)) for row in zip(*by_output, strict=False)]


def _by_row(elements: list[Any], shape: tuple[int, ...]) -> list[Any]:
    elements = finite_or_word(elements)
    if len(shape) <= 1 or prod(shape[1:]) == 1:
        return elements
    for length in reversed(shape[1:]):
        elements = [elements[at : at + length] for at in range(0, len(elements), length)] if length else []
    return elements
