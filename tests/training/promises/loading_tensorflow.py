"""What TensorFlow is fed with. It does not survive a fork, so each promise brings it in itself."""

import numpy as np

from falaj.client.dataset_loaders import Fed, tensorflow_batches

ROWS = 1_000


class _Groups:
    """A table in memory, in groups of 100 rows."""

    rows = (100,) * (ROWS // 100)
    dtypes = {
        "id": np.dtype(np.int64),
        "half": np.dtype(np.float64),
        "place": np.dtype((np.float32, (2,))),
        "name": np.dtype(np.object_),
    }

    def read(self, group, columns):
        numbers = np.arange(group * 100, group * 100 + 100)
        names = np.array([f"row {number}" for number in numbers], np.object_)
        place = np.repeat(numbers.astype(np.float32), 2).reshape(-1, 2)
        every = {"id": numbers, "half": numbers / 2, "place": place, "name": names}
        return {name: every[name] for name in columns}


def _batches(fed, **more):
    return tensorflow_batches(_Groups(), fed, **({"rank": 0, "ranks": 1, "epoch": 0, "skip": 0} | more))


def _ids(batches):
    return [batch["id"].numpy().tolist() for batch in batches]


def batches_come_by_name_or_stacked_and_every_row_once(folder):
    import tensorflow as tf

    whole = _batches(Fed(columns=["id", "half"], lists=["name"], batch_size=64, shuffle=True, buffer=300))
    assert len(whole) == 16
    seen = []
    for batch in whole:
        assert batch["id"].dtype == tf.int64
        assert batch["half"].numpy().tolist() == [one / 2 for one in batch["id"].numpy()]
        assert batch["name"].numpy().tolist() == [f"row {one}".encode() for one in batch["id"].numpy()]
        seen += batch["id"].numpy().tolist()
    assert sorted(seen) == list(range(ROWS))
    for matrix, target in _batches(Fed(features=["half", "place"], target="half", batch_size=64, shuffle=True)):
        assert (matrix.dtype, target.dtype, matrix.shape[1]) == (tf.float32, tf.float32, 3)
        assert tf.reduce_all(matrix[:, 0] == target)
        assert tf.reduce_all(matrix[:, 2] == target * 2)


def epochs_differ_shares_do_not_overlap_and_a_stop_goes_on(folder):
    fed = Fed(columns=["id"], batch_size=64, shuffle=True, seed=4, buffer=300)
    batches = _batches(fed)
    first, second = _ids(batches), _ids(batches)
    assert first != second
    resumed = _batches(fed, epoch=0, skip=5)
    assert _ids(resumed) == first[5:]
    assert _ids(resumed) == second
    shares = [sum(_ids(_batches(fed, rank=rank, ranks=2)), []) for rank in range(2)]  # noqa: RUF017
    assert sorted(shares[0] + shares[1]) == list(range(ROWS))


def a_model_is_fitted_with_it(folder):
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(1e-7), loss="mse")
    fed = Fed(features=["half", "place"], target="half", batch_size=100, shuffle=True)
    losses = model.fit(_batches(fed), epochs=3, shuffle=False, verbose=0).history["loss"]
    assert losses[2] < losses[0]
