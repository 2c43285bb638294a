"""What every `Engine` promises, wrappers included. Inherit and provide the fixture `case`."""

import gc
import resource
import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.values import value
from falaj.runtimes.datatypes import BYTES, DTYPES
from falaj.runtimes.engine import Array, Engine
from falaj.runtimes.errors import EngineFailed, Rejected

PAGE = resource.getpagesize()
RUNS = 10_000
MAY_GROW = 24 << 20  # allocators keep some; a leak of one small answer per run would be more


@value
class EngineCase:
    """An engine under test: how it is loaded, rows that its model takes, and what the model's own library says to them."""

    load: Callable[[], Engine]
    rows: Sequence[Array]  # one array per input, 64 rows or more
    expected: Callable[[Sequence[Array]], Sequence[Array]]
    tolerance: float = 1e-5


def _same(given: Sequence[Array], expected: Sequence[Array], tolerance: float) -> None:
    assert len(given) == len(expected)
    for one, other in zip(given, expected, strict=True):
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one.astype(float), np.asarray(other, float), rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(one, other)


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE


class EngineConformance:
    @pytest.fixture
    def case(self) -> EngineCase:
        raise NotImplementedError("provide the engine under test")

    @pytest.fixture
    def engine(self, case: EngineCase) -> Engine:
        return case.load()

    def test_the_answers_are_those_of_the_models_own_library(self, case: EngineCase, engine: Engine) -> None:
        _same(engine.run(case.rows), case.expected(case.rows), case.tolerance)

    def test_answers_are_what_the_outputs_declare(self, case: EngineCase, engine: Engine) -> None:
        rows = len(case.rows[0])
        for spec, answer in zip(engine.outputs, engine.run(case.rows), strict=True):
            assert answer.dtype == DTYPES[spec.datatype]
            assert answer.ndim == len(spec.shape)
            assert all(length in (-1, given) for length, given in zip(spec.shape, answer.shape, strict=True))
            assert answer.shape[0] == rows
            if spec.datatype == BYTES:
                assert all(type(text) is bytes for text in answer.reshape(-1).tolist())

    def test_specs_are_the_same_each_time_and_do_not_change(self, case: EngineCase, engine: Engine) -> None:
        engine.run(case.rows)
        other = case.load()
        assert tuple(other.inputs) == tuple(engine.inputs)
        assert tuple(other.outputs) == tuple(engine.outputs)
        assert (other.batches, other.device) == (engine.batches, engine.device) == (True, "cpu")
        other.close()

    def test_a_rows_answer_depends_on_that_row_alone(self, case: EngineCase, engine: Engine) -> None:
        whole, count = engine.run(case.rows), len(case.rows[0])

        @settings(max_examples=40, deadline=None, database=None)
        @given(chosen=st.lists(st.integers(0, count - 1), min_size=1, max_size=count))
        def ask(chosen: list[int]) -> None:
            _same(engine.run([array[chosen] for array in case.rows]), [answer[chosen] for answer in whole], case.tolerance)

        ask()

    def test_more_rows_than_ever_before_are_taken(self, case: EngineCase, engine: Engine) -> None:
        whole = engine.run(case.rows)
        _same(
            engine.run([np.concatenate([array] * 9) for array in case.rows]),
            [np.concatenate([answer] * 9) for answer in whole],
            case.tolerance,
        )

    def test_rows_may_lie_anywhere_in_memory(self, case: EngineCase, engine: Engine) -> None:
        """Backwards, not writable, at an odd address: what comes from a socket lies where it came to lie."""
        expected = case.expected(case.rows)
        _same(engine.run([array[::-1] for array in case.rows]), [answer[::-1] for answer in expected], case.tolerance)
        odd = []
        for array in case.rows:
            if array.dtype == object:
                odd.append(array)
                continue
            shifted = memoryview(b"\0" + array.tobytes())[1:]
            odd.append(np.frombuffer(shifted, array.dtype).reshape(array.shape))
        _same(engine.run(odd), expected, case.tolerance)

    def test_inputs_are_left_as_they_were(self, case: EngineCase, engine: Engine) -> None:
        copies = [array.copy() for array in case.rows]
        engine.run(copies)
        for copy, array in zip(copies, case.rows, strict=True):
            np.testing.assert_array_equal(copy, array)

    def test_answers_belong_to_the_caller(self, case: EngineCase, engine: Engine) -> None:
        first = engine.run([array[:8] for array in case.rows])
        kept = [answer.copy() for answer in first]
        engine.run([array[8:16] for array in case.rows])
        _same(first, kept, 0)

    def test_what_does_not_fit_is_rejected_and_does_no_harm(self, case: EngineCase, engine: Engine) -> None:
        rows = list(case.rows)
        wrong_type = np.int8 if rows[0].dtype != np.int8 else np.float64
        wrong: list[list[Array]] = [
            [],
            [*rows, rows[0]],
            [np.zeros(rows[0].shape, wrong_type), *rows[1:]],
            [rows[0][:0], *(array[:0] for array in rows[1:])],
            [rows[0][..., None], *rows[1:]],
            [np.asarray(rows[0].reshape(-1)[0]), *rows[1:]],
        ]
        if rows[0].ndim > 1:
            wrong += [[np.concatenate([rows[0]] * 2, axis=1), *rows[1:]], [rows[0].reshape(-1), *rows[1:]]]
        if len(rows) > 1:
            wrong.append([rows[0][:3], *rows[1:]])
        if rows[0].dtype.itemsize > 1 and rows[0].dtype != object:
            wrong.append([rows[0].astype(rows[0].dtype.newbyteorder(">")), *rows[1:]])
        expected = case.expected(case.rows)
        for arrays in wrong:
            with pytest.raises(Rejected):
                engine.run(arrays)
            _same(engine.run(case.rows), expected, case.tolerance)

    def test_two_engines_answer_at_the_same_time(self, case: EngineCase) -> None:
        expected, problems = case.expected(case.rows), []

        def ask() -> None:
            engine = case.load()
            try:
                for _ in range(50):
                    _same(engine.run(case.rows), expected, case.tolerance)
            except BaseException as error:  # noqa: BLE001  (it is told below)
                problems.append(error)
            finally:
                engine.close()

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not problems

    def test_an_engine_may_be_used_by_one_thread_after_another(self, case: EngineCase, engine: Engine) -> None:
        found: list[Sequence[Array]] = []
        thread = threading.Thread(target=lambda: found.append(engine.run(case.rows)))
        thread.start()
        thread.join()
        _same(found[0], case.expected(case.rows), case.tolerance)

    def test_closing_twice_is_closing_once_and_then_it_fails(self, case: EngineCase) -> None:
        engine = case.load()
        engine.close()
        engine.close()
        with pytest.raises(EngineFailed):
            engine.run(case.rows)

    def test_memory_does_not_grow(self, case: EngineCase, engine: Engine) -> None:
        sizes = [1, 2, 3, 8, 31, 32]
        batches = [[array[:size] for array in case.rows] for size in sizes]
        for number in range(RUNS // 10):
            engine.run(batches[number % len(batches)])
        gc.collect()
        before = _resident()
        for number in range(RUNS):
            engine.run(batches[number % len(batches)])
        gc.collect()
        assert _resident() - before < MAY_GROW
