"""A MultiWorkerMirroredStrategy of two tasks, which find each other by TF_CONFIG and save at every step; one kills itself in
the first try where asked to."""

import json
import os
import signal
import sys
import tempfile

import numpy as np
import tensorflow as tf

lose_at, now = int(sys.argv[1]), os.environ["FALAJ_TRY"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
rows = np.random.default_rng(17).normal(size=(64, 4)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((rows, rows.sum(1, keepdims=True))).batch(8)
with strategy.scope():
    weights, done = tf.Variable(tf.zeros((4, 1))), tf.Variable(0, dtype=tf.int64)

# All save together, as TensorFlow wants it; what the first one writes is kept.
saved = tf.train.Checkpoint(weights=weights, done=done)
saved.restore(tf.train.latest_checkpoint(os.environ["FALAJ_CHECKPOINTS"]))
folder = os.environ["FALAJ_CHECKPOINTS"] if task == 0 else tempfile.mkdtemp()
manager = tf.train.CheckpointManager(saved, folder, max_to_keep=2)


def say(words):
    sys.stdout.write(f"{words}\n")  # at once, newline and all: both tasks write to one log


@tf.function
def step(inputs, wanted):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((inputs @ weights - wanted) ** 2)
    together = tf.distribute.get_replica_context().all_reduce("MEAN", [tape.gradient(loss, weights), loss])
    weights.assign_sub(0.1 * together[0])
    done.assign_add(1)
    return together[1]


first = int(done.numpy())
say(f"try {now} of task {task} begins at step {first} of {strategy.num_replicas_in_sync}")
for number, (inputs, wanted) in enumerate(strategy.experimental_distribute_dataset(dataset), 1):
    if number <= first:
        continue
    loss = strategy.experimental_local_results(strategy.run(step, args=(inputs, wanted)))[0]
    if task == 0:
        say(f"step {number} {float(loss):.6f}")
    manager.save()
    if task == 1 and number == lose_at and now == "1":
        os.kill(os.getpid(), signal.SIGKILL)
say(f"task {task} ends with {float(tf.reduce_sum(weights)):.6f}")
