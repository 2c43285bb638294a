"""Models by their own Python code: each in a process inside the walls, whatever it does there."""

import json
import pickle
import sys
import threading
import time
from textwrap import dedent, indent

import numpy as np
import psutil
import pytest

from falaj.runtimes.engine import Columned, ModelFiles, Placement, Stoppable
from falaj.runtimes.errors import DeviceMissing, EngineFailed, EngineMissing, NotLoadable, Rejected
from falaj.runtimes.isolated import IsolatedEngine
from falaj.runtimes.loading import load
from falaj.runtimes.sandbox import Sandbox
from falaj.testing.runtimes import EngineCase, EngineConformance
from tests.mlflow.clients import python_of
from tests.runtimes.hostile import pickled
from tests.runtimes.models import ROWS

HERE = Placement(python=sys.executable)
WIDTH = ROWS.shape[1]

# An estimator like scikit-learn's, without scikit-learn, which takes a second to import.
ESTIMATOR = """
import numpy as np

class Model:
    n_features_in_ = {width}
    feature_names_in_ = {names}
    def predict(self, x):
{first}
        return np.asarray(x, dtype=np.float64).sum(axis=1)

made = Model()
"""


class _Makes:
    def __init__(self, source):
        self._source = source

    def __reduce__(self):
        """`exec` gives nothing back; what it made is fetched by a second step."""
        return eval, (f"(lambda names: (exec({self._source!r}, names), names['made'])[1])(dict(__name__='made'))",)


def estimator(first="pass", width=WIDTH, names=()):
    """A pickle of an object whose class is made when it is loaded. It adds up each row; before that it does `first`."""
    return pickle.dumps(_Makes(ESTIMATOR.format(width=width, names=names, first=indent(dedent(first).strip(), " " * 8))))


def files(model, *, columns=(), tensors=(), flavour="sklearn", **more):
    request = {"flavours": {flavour: "model.pkl"}, "columns": list(columns), "tensors": list(tensors)}
    contents = {"falaj-model.json": json.dumps(request).encode(), "model.pkl": model, **more}
    return ModelFiles(runtime="python", main="falaj-model.json", contents=contents)


def column(name, type="double"):
    return {"name": name, "type": type, "required": True}


@pytest.fixture
def loaded():
    """Loads models, and ends them all."""
    engines = []

    def make(model, placement=HERE, **options):
        engine = IsolatedEngine(Sandbox(sys.executable), model, **options) if options else load(model, placement)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


class TestIsolated(EngineConformance):
    @pytest.fixture
    def case(self, loaded):
        model = files(estimator())
        return EngineCase(
            load=lambda: loaded(model), rows=[ROWS.astype(np.float64)], expected=lambda rows: [rows[0].sum(axis=1)]
        )


class TestIsolatedWithTexts(EngineConformance):
    @pytest.fixture
    def case(self, loaded):
        code = "return np.array(['-'.join(row) for row in x])"
        model = files(estimator(code), tensors=[{"name": "words", "dtype": "str", "shape": [-1, 2]}])
        words = np.array([word.encode() for word in np.random.default_rng(3).choice(["a", "ü", ""], 160)], dtype=object)

        def expected(rows):
            return [np.array([b"-".join(row) for row in rows[0].tolist()], dtype=object)]

        return EngineCase(load=lambda: loaded(model), rows=[words.reshape(80, 2)], expected=expected)


# What it may not


def test_it_is_off_unless_the_plane_names_an_interpreter():
    with pytest.raises(EngineMissing, match=r"\[serving\] python = true"):
        load(files(estimator()), Placement())


def test_it_runs_on_the_cpu_only():
    with pytest.raises(DeviceMissing, match="CPU only"):
        load(files(estimator()), Placement(device="gpu", python=sys.executable))


def test_a_model_that_cannot_be_loaded_says_why():
    with pytest.raises(NotLoadable, match="the library 'no_such_library' is not installed"):
        load(files(pickled("import no_such_library")), HERE)
    with pytest.raises(NotLoadable, match="ZeroDivisionError"):
        load(files(pickled("1 / 0")), HERE)
    with pytest.raises(NotLoadable, match="no way is known to load a model of flavour prophet"):
        load(files(estimator(), flavour="prophet"), HERE)
    with pytest.raises(NotLoadable, match="says nothing of its inputs"):
        load(files(estimator(width=0)), HERE)


def test_it_sees_no_network_and_no_secrets(loaded, monkeypatch):
    monkeypatch.setenv("FALAJ_SECRET", "hush-hush")
    code = """
        import os, socket
        assert not [name for name in os.environ if "SECRET" in name]
        assert [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line] == ["lo"]
        assert b"hush" not in open("/proc/1/environ", "rb").read() if os.access("/proc/1/environ", os.R_OK) else True
    """
    engine = loaded(files(estimator(code.rstrip())))
    assert engine.run([np.ones((1, WIDTH))])[0].tolist() == [WIDTH]


# What goes wrong


def test_inputs_that_the_model_cannot_take_are_rejected_in_its_own_words(loaded):
    engine = loaded(files(estimator("if (x < -1e6).any(): raise ValueError('no such thing')")))
    with pytest.raises(Rejected, match="no such thing"):
        engine.run([np.full((1, WIDTH), -1e9)])
    assert engine.run([np.ones((1, WIDTH))])[0].tolist() == [WIDTH]


def test_a_model_that_fails_is_not_restarted_for_it(loaded):
    engine = loaded(files(estimator("if (x < -1e6).any(): raise KeyError('lost')")))
    before = children()
    with pytest.raises(EngineFailed, match="KeyError: 'lost'"):
        engine.run([np.full((1, WIDTH), -1e9)])
    assert children() == before


def children():
    return {one.pid for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE}


def test_a_model_that_dies_fails_its_call_and_is_started_again(loaded):
    engine = loaded(files(estimator("import os\nif (x < -1e6).any(): os._exit(7)")))
    before = children()
    with pytest.raises(EngineFailed, match="ended with 7"):
        engine.run([np.full((1, WIDTH), -1e9)])
    assert engine.run([np.ones((1, WIDTH))])[0].tolist() == [WIDTH]
    assert len(children() - before) == len(before - children()) == 1


def test_a_model_that_hangs_is_ended_at_its_deadline_and_started_again(loaded):
    hangs = "import time\nif (x < -1e6).any(): time.sleep(1000)"
    engine = loaded(files(estimator(hangs)), answers_within=5)
    started = time.monotonic()
    with pytest.raises(EngineFailed, match="more than 5 seconds and was ended"):
        engine.run([np.full((1, WIDTH), -1e9)])
    assert time.monotonic() - started < 10
    assert engine.run([np.ones((1, WIDTH))])[0].tolist() == [WIDTH]


def test_a_run_can_be_stopped_from_another_thread(loaded):
    engine = loaded(files(estimator("import time\nif (x < -1e6).any(): time.sleep(1000)")))
    assert isinstance(engine, Stoppable)
    threading.Timer(0.5, engine.stop).start()
    with pytest.raises(EngineFailed, match="was stopped"):
        engine.run([np.full((1, WIDTH), -1e9)])


def test_a_model_that_takes_too_much_memory_is_refused_it(loaded):
    engine = loaded(files(estimator("if (x < -1e6).any(): bytearray(4 << 30)")), memory_bytes=2 << 30)
    with pytest.raises(EngineFailed, match="MemoryError"):
        engine.run([np.full((1, WIDTH), -1e9)])
    assert engine.run([np.ones((1, WIDTH))])[0].tolist() == [WIDTH]


@pytest.mark.parametrize(
    "written",
    [
        b"nonsense" * 100,
        b"\xff" * 12,  # a header of four gigabytes
        b"\x02\0\0\0" + bytes(8) + b"[]",
        b"\x02\0\0\0" + bytes(8) + b"{}",
    ],
)
def test_a_model_that_answers_nonsense_in_place_of_the_program_is_not_believed(loaded, written):
    forges = f"""
        import os
        if (x < -1e6).any():
            for pipe in range(3, 16):
                try: os.write(pipe, {written!r})
                except OSError: pass
            os._exit(0)"""
    engine = loaded(files(estimator(forges)))
    with pytest.raises(EngineFailed):
        engine.run([np.full((1, WIDTH), -1e9)])
    assert engine.run([np.ones((1, WIDTH))])[0].tolist() == [WIDTH]


def test_one_that_dies_each_time_is_left_alone_for_longer_and_longer(loaded):
    engine = loaded(files(estimator("import os\nif (x < -1e6).any(): os._exit(7)")), answers_within=3)
    bad = [np.full((1, WIDTH), -1e9)]
    for _ in range(2):
        with pytest.raises(EngineFailed):
            engine.run(bad)
    started = time.monotonic()
    with pytest.raises(EngineFailed):
        engine.run(bad)
    assert time.monotonic() - started > 0.9


def test_closing_ends_the_process(loaded):
    before = children()
    engine = loaded(files(estimator()))
    assert len(children() - before) == 1
    engine.close()
    assert children() <= before


# What models give and take


def test_rows_that_influence_each_other_are_not_asked_together(loaded):
    engine = loaded(files(estimator("return x.sum(axis=1) - x.mean()")))
    assert not engine.batches


def test_a_model_without_signature_knows_its_columns(loaded):
    names = [f"feature {number}" for number in range(WIDTH)]
    engine = loaded(files(estimator(names=names)))
    assert isinstance(engine, Columned)
    assert list(engine.columns) == names


def test_a_table_reaches_the_model_with_its_names_types_and_gaps(loaded):
    """By an interpreter that has pandas."""
    model = estimator("return np.array([f'{name} {count:g} {x.dtypes.iloc[1]}' for name, count in zip(x['name'], x['count'])])")
    table = files(model, columns=[column("name", "string"), column("count", "long")])
    engine = loaded(table, Placement(python=str(python_of("mlflow3"))))
    names = np.array([[b"a"], ["ü".encode()]], dtype=object)
    assert [spec.datatype for spec in engine.inputs] == ["BYTES", "FP64"]
    assert [one.decode() for one in engine.run([names, np.array([[1.0], [2.0]])])[0]] == ["a 1 int64", "ü 2 int64"]
    assert [one.decode() for one in engine.run([names, np.array([[1.0], [np.nan]])])[0]] == ["a 1 float64", "ü nan float64"]


def test_columns_of_a_kind_that_no_tensor_holds_are_named():
    with pytest.raises(NotLoadable, match="cannot be asked about in a table: when"):
        load(files(estimator(), columns=[column("when", "datetime")]), HERE)
