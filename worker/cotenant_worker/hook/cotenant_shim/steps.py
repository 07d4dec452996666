"""How far a program is that does not say so: those of a torch optimizer, of Keras's `fit`, of `counters`."""

from __future__ import annotations

import contextlib
import sys
import time
import weakref

from .heartbeat import pulse
from .isolated_ranks import TOGETHER_BY, is_alone, warn_alone
from .main_process import trains

ITERATIONS = "keras iterations"
"""Where a Keras optimizer counts. `fit` moves that as well, and tells of its batches: it comes first."""

BY_HAND = "by hand"
"""Backward passes without an optimizer. The first step of one shows that they were something else."""

SUCCEEDS = 100
"""Steps of another optimizer without one of the first: it trains what comes next (a fold, a second `fit`). Those that
take turns, as in a GAN, do so earlier. Where the first is no longer there, the next one need not wait for so long."""


class Steps:
    """Of this process: one count, of whoever came first. A Keras model may well hold one of torch's optimizers."""

    def __init__(self):
        self._source = None
        self._count = 0
        self._before = 0
        """What another process of this rank has counted, if this one succeeds it."""
        self._next = None
        self._since = 0
        """The first other source since the last step of the one that counts, and how many it has made."""
        self._holder = None
        """A weak reference to whose steps are counted, if it is an object."""
        self.others = 0
        """Steps that add nothing to the count, and show all the same that something goes on."""

    @property
    def source(self):
        """Who counts, or None."""
        return self._source

    @property
    def number(self):
        return self._before + self._count

    def made_by(self, optimizer):
        """One step of an optimizer of torch's, as `made`."""
        met = self.made(id(optimizer))
        if self._source == id(optimizer) and (self._holder is None or self._holder() is not optimizer):
            self._holder = weakref.ref(optimizer)
        return met

    def made(self, source, more=1):
        """Whether these `more` steps of `source` are those by which ranks have met."""
        if self._source == ITERATIONS:
            self._source = source
        elif self._source == BY_HAND != source:
            self._source, self._count = source, 0
        if not self._counts(source):
            more = self._succeeds(source, more)
        if not more:
            return False
        self._count += more
        pulse.word("step", self.number)
        return self._count - more < TOGETHER_BY <= self._count

    def are(self, source, number):
        """`source` has a count of its own, also of what went before a checkpoint. Of several the furthest is shown."""
        if self._counts(source) and number > self.number:
            self._before, self._count = 0, number
            pulse.word("step", number)

    def _counts(self, source):
        if self._source is None:
            self._source = source if trains() else "nobody"
            if self._source == "nobody":
                return False
            self._before = max(0, pulse.word("step"))
            pulse.send({"op": "mark", "what": f"first step of rank {pulse.rank}", "stepped": True})
            pulse.stirs["steps"] = lambda: self.others
            pulse.start()
        if self._source == source:
            self._next, self._since = None, 0
        return self._source == source

    def _succeeds(self, source, more):
        """`source` is not the one that counts: all that it has made, if it takes that one's place now, else 0."""
        if self._source == "nobody":
            return 0
        self.others += more
        self._next = self._next or source
        if self._next != source:
            return 0
        self._since += more
        gone = self._holder is not None and self._holder() is None
        if self._since < SUCCEEDS and not gone:
            return 0
        self._holder = None
        made, self._source, self._next, self._since = self._since, source, None, 0
        return made


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
            if steps.made(keras, done) and is_alone():
                _warn_alone()
        return original(self, batch, logs)

    module.CallbackList.on_train_batch_end = on_train_batch_end
    ended = module.CallbackList.on_epoch_end

    def on_epoch_end(self, epoch, logs=None):
        with contextlib.suppress(Exception):
            _tell(logs)
        return ended(self, epoch, logs)

    module.CallbackList.on_epoch_end = on_epoch_end


def _tell(logs):
    """An epoch's metrics. Those of its batches would have to be fetched from the device each time."""
    numbers = {name: float(value) for name, value in (logs or {}).items() if getattr(value, "ndim", 0) == 0}
    if numbers and steps.number and trains():
        pulse.send({"op": "report", "step": steps.number, "counted": True, "metrics": numbers, "at": time.time()})


def _warn_alone():
    """JAX is asked where it makes its devices (`frameworks`)."""
    config = sys.modules.get("keras.src.backend.config")
    backend = config.backend() if config else "tensorflow"  # `tf_keras` has no other
    if backend == "torch":
        warn_alone()
    elif backend == "tensorflow" and not _tensorflow_meets():
        warn_alone(
            f"after {TOGETHER_BY} steps TensorFlow is in no cluster. Make and compile the model in the scope of a"
            " tf.distribute.MultiWorkerMirroredStrategy, or ask for workers: 1"
        )


def _tensorflow_meets():
    """A strategy of several workers tells TensorFlow of the cluster before its first variable."""
    context = sys.modules["tensorflow.python.eager.context"].context()
    return bool(context._collective_ops_server_def or context._server_def or context.coordination_service)
