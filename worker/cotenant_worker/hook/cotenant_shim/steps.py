"""How far a program is that does not say so: the steps of its first torch optimizer, or of Keras's `fit`."""

from __future__ import annotations

import contextlib
import sys

from .alone import TOGETHER_BY, is_alone, warn_alone
from .beats import pulse
from .main_process import trains


class Steps:
    """Of this process: one count, of whoever came first. A Keras model may well hold one of torch's optimizers."""

    def __init__(self):
        self._source = None
        self._count = 0
        self._before = 0
        """What another process of this rank has counted, if this one succeeds it."""

    def made(self, source, more=1):
        """Whether these `more` steps of `source` are those by which ranks have met."""
        if self._source is None:
            self._source = source if trains() else "nobody"
            if self._source == "nobody":
                return False
            self._before = max(0, pulse.word("step"))
            pulse.send({"op": "mark", "what": f"first step of rank {pulse.rank}", "stepped": True})
            pulse.start()
        if self._source != source:
            return False
        self._count += more
        pulse.word("step", self._before + self._count)
        return self._count - more < TOGETHER_BY <= self._count


steps = Steps()


def after_keras_callbacks(module):
    """`fit` on every backend: Keras's optimizers are none of torch's, and on JAX they run inside the compiled step."""
    original = module.CallbackList.on_train_batch_end
    keras = f"keras {id(module)}"

    def on_train_batch_end(self, batch, logs=None):
        with contextlib.suppress(Exception):
            before = getattr(self, "_cotenant_batch", -1)
            self._cotenant_batch = batch  # the last of the batches that were done together (`steps_per_execution`)
            done = batch - before if batch > before else batch + 1
            if steps.made(keras, done) and _on_torch() and is_alone():
                warn_alone()
        return original(self, batch, logs)

    module.CallbackList.on_train_batch_end = on_train_batch_end


def _on_torch():
    """Strategies of TensorFlow's and worlds of JAX's are not to be seen from here."""
    return sys.modules["keras.src.backend.config"].backend() == "torch"
