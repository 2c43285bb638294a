"""A MirroredStrategy over two logical CPUs, saved after every epoch; ends itself in the first try where asked to."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
folder = Path(os.environ["FALAJ_CHECKPOINTS"]) / "epochs"
rows = np.random.default_rng(17).normal(size=(64, 4)).astype("float32")
wanted = rows.sum(1, keepdims=True)
with strategy.scope():
    tf.keras.utils.set_random_seed(17)
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")
backup = tf.keras.callbacks.BackupAndRestore(str(folder), save_freq="epoch")


class Words(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if not getattr(self, "begun", False):
            print(f"try {os.environ['FALAJ_TRY']} begins at epoch {epoch} on {strategy.num_replicas_in_sync}", flush=True)
            self.begun = True
        if epoch == int(sys.argv[2]) and os.environ["FALAJ_TRY"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch} {logs['loss']:.6f}", flush=True)


model.fit(rows, wanted, epochs=int(sys.argv[1]), batch_size=16, shuffle=False, verbose=0, callbacks=[backup, Words()])
