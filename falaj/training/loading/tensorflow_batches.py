"""Batches as a `tf.data.Dataset`."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from falaj.training.loading.layouts import FEATURES, Layout
from falaj.training.loading.orders import Order, Share
from falaj.training.loading.pools import Batches
from falaj.training.loading.sources import ArrayGroups


def tensorflow_batches(
    source: ArrayGroups, layout: Layout, order: Order, *, share: Share, epoch: int = 0, skip: int = 0
) -> Any:
    """Each iteration is the next epoch; the first one is what is left of `epoch` after `skip` batches."""
    batches = Batches(source, layout, order)
    epochs = itertools.count(epoch)
    skips = itertools.chain([skip], itertools.repeat(0))

    def give() -> Iterator[Any]:
        for parts in batches.of(next(epochs), share, skip=next(skips)):
            yield layout.batch(parts)

    made = tf.data.Dataset.from_generator(give, output_signature=_signature(source, layout))
    if not skip:  # else the first iteration is a shorter one
        made = made.apply(tf.data.experimental.assert_cardinality(order.batches(share)))
    return made.prefetch(tf.data.AUTOTUNE)


def _signature(source: ArrayGroups, layout: Layout) -> Any:
    dtypes = source.dtypes
    if layout.features:
        width = sum(dtypes[name].shape[0] if dtypes[name].shape else 1 for name in layout.features)
        kept = dtypes[layout.target] if layout.target is not None else None
        matrix = tf.TensorSpec((None, width), tf.float32)
        return matrix if kept is None else (matrix, _spec(np.dtype((FEATURES, kept.shape)) if kept.base.kind == "f" else kept))
    return {name: _spec(dtypes[name]) for name in (*layout.columns, *layout.lists)}


def _spec(dtype: "np.dtype[Any]") -> Any:
    return tf.TensorSpec((None, *dtype.shape), tf.string if dtype == np.object_ else tf.as_dtype(dtype.base))
