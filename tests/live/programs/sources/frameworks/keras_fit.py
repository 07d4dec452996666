"""Keras: `fit` with BackupAndRestore, and callbacks that print."""

import argparse
import os
import time

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out")
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()


class Told(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch + 1 == options.bad_batch:
            raise ValueError(f"bad batch {options.bad_batch}")
        if not self.told:
            print("starts at", epoch)
            self.told = True
        time.sleep(0.02)

    def on_epoch_end(self, epoch, logs=None):
        print("step", epoch + 1)

    told = False


model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
backup = keras.callbacks.BackupAndRestore(os.path.join(options.out, "backup"), delete_checkpoint=False)
model.fit(np.ones((4, 4)), np.zeros((4, 1)), epochs=options.steps, verbose=0, batch_size=4, callbacks=[Told(), backup])
