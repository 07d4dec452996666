"""Counts the steps of a program that does not report: of torch's optimizers, Keras's `fit`, `framework_steps`."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
import weakref

from .heartbeat import heartbeat
from .isolated_ranks import SYNCHRONIZED_BY_STEP, is_isolated, warn_isolated
from .launcher_client import launcher
from .main_process import is_training_process, rank

KERAS_ITERATIONS = "keras iterations"
"""Counter of a Keras optimizer. `fit` moves it as well, and its batches take precedence."""

MANUAL = "by hand"
"""Backward passes without an optimizer. If an optimizer steps, it takes over."""

HANDOVER_STEPS = 100
"""If another optimizer makes this many steps while the first makes none, it takes over: it trains what comes next (a
fold, a second `fit`). Optimizers that alternate, as in a GAN, do so earlier. If the first one no longer exists, the
next takes over at once.
"""

_STATES_READ = 8
"""Number of parameters whose state is read. If the count is on the GPU, each read waits for it once."""

_NO_SOURCE = "none"
"""The source of a process that does not train for its rank."""


class StepCounter:
    """One count per process, from the source that came first. A Keras model may also contain an optimizer of torch."""

    def __init__(self):
        self._source = None
        self._count = 0
        self._before = 0
        """The count of an earlier process of this rank, if this one succeeds it, or the count before the loaded
        checkpoint.
        """
        self._resumed = 0
        """Steps before the checkpoint that this process was given, by the checkpoint's own note."""
        self._succeeded = 0
        """The part of it that an earlier process has counted."""
        self._next = None
        self._since = 0
        """The first other source since the last counted step, and the number of its steps."""
        self._holder = None
        """A weak reference to the optimizer whose steps are counted."""
        self.other_steps = 0
        """Steps that are not counted but show activity."""

    @property
    def source(self):
        """The source that is counted, or None."""
        return self._source

    @property
    def total(self):
        return self._before + self._count

    def add_optimizer_step(self, optimizer):
        """Like `add`, for one step of an optimizer of torch."""
        begins = self._source in (None, MANUAL)
        synchronized = self.add(id(optimizer))
        if begins:
            self.begin_at(id(optimizer), kept_steps(optimizer))
        if self._source == id(optimizer) and (self._holder is None or self._holder() is not optimizer):
            self._holder = weakref.ref(optimizer)
        return synchronized

    def add(self, source, more=1):
        """Count `more` steps of `source`. True when they reach the step by which ranks are synchronized."""
        if self._source == KERAS_ITERATIONS:
            self._source = source
        elif self._source == MANUAL != source:
            self._source, self._count = source, 0
        if not self._counts(source):
            more = self._handed_over(source, more)
        if not more:
            return False
        self._count += more
        launcher.set_counter("step", self.total)
        return self._count - more < SYNCHRONIZED_BY_STEP <= self._count

    def resume(self, steps):
        """Continue from a checkpoint that was written after so many steps. Has no effect once steps are counted."""
        self._resumed = steps

    def begin_at(self, source, total):
        """Start from the step count that `source` itself has, for instance from a checkpoint that it loaded; 0 if it
        keeps none.

        This is better evidence than the mere existence of a checkpoint, which the program need not have loaded.
        """
        if total and self._source == source:
            self._before = max(self._succeeded, total - self._count)
            launcher.set_counter("step", self.total)

    def set_total(self, source, total):
        """Set the count of `source`, including steps before a checkpoint. The largest of several counts wins."""
        if self._counts(source) and total > self.total:
            self._before, self._count = 0, total
            launcher.set_counter("step", total)

    def _counts(self, source):
        if self._source is None:
            self._source = source if is_training_process() else _NO_SOURCE
            if self._source == _NO_SOURCE:
                return False
            self._succeeded = max(0, launcher.get_counter("step"))
            self._before = max(self._succeeded, self._resumed)
            launcher.send({"op": "phase", "phase": f"first step of rank {rank()}", "first_step": True})
            launcher.set_counter("trainer", os.getpid())
            heartbeat.activity["steps"] = lambda: self.other_steps
            heartbeat.start()
        if self._source == source:
            self._next, self._since = None, 0
        return self._source == source

    def _handed_over(self, source, more):
        """All steps of another `source`, if it takes over from the counted one; otherwise 0."""
        if self._source == _NO_SOURCE:
            return 0
        self.other_steps += more
        self._next = self._next or source
        if self._next != source:
            return 0
        self._since += more
        gone = self._holder is not None and self._holder() is None
        if self._since < HANDOVER_STEPS and not gone:
            return 0
        self._holder = None
        steps, self._source, self._next, self._since = self._since, source, None, 0
        return steps


step_counter = StepCounter()


def kept_steps(optimizer):
    """Steps by the count that an optimizer of torch keeps in its state (Adam, RMSprop …) and loads with it; 0 if it
    keeps none, as SGD.

    Parameters that were added later have fewer.
    """
    found = [0]
    with contextlib.suppress(Exception):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        for kept in (*optimizer.param_groups[:1], *itertools.islice(optimizer.state.values(), _STATES_READ)):
            step = kept.get("step", 0)
            if not (getattr(step, "is_cuda", False) and cuda.is_current_stream_capturing()):
                found.append(int(step))
    return max(found)


def after_keras_callbacks(module):
    """Count in `fit`, on every backend: Keras's optimizers are not torch's, and on JAX they are compiled code."""
    original = module.CallbackList.on_train_batch_end
    keras = f"keras {id(module)}"

    def on_train_batch_end(self, batch, logs=None):
        with contextlib.suppress(Exception):
            before = getattr(self, "_cotenant_batch", -1)
            self._cotenant_batch = batch  # the last of the batches that were done together (`steps_per_execution`)
            done = batch - before if batch > before else batch + 1
            begins = step_counter.source is None
            synchronized = step_counter.add(keras, done)
            kept = getattr(self, "_cotenant_iterations", 0)
            if begins and kept:
                step_counter.begin_at(keras, kept + done)
            if synchronized and is_isolated():
                _warn_isolated()
        return original(self, batch, logs)

    module.CallbackList.on_train_batch_end = on_train_batch_end
    began = getattr(module.CallbackList, "on_train_begin", None)

    def on_train_begin(self, *args, **kwargs):
        with contextlib.suppress(Exception):  # of a model that was loaded, its optimizer has counted
            self._cotenant_iterations = int(self.model.optimizer.iterations.numpy())
        return began(self, *args, **kwargs)

    if began is not None:
        module.CallbackList.on_train_begin = on_train_begin
    ended = module.CallbackList.on_epoch_end

    def on_epoch_end(self, epoch, logs=None):
        with contextlib.suppress(Exception):
            _report_epoch(logs)
        return ended(self, epoch, logs)

    module.CallbackList.on_epoch_end = on_epoch_end


def _report_epoch(logs):
    """Report an epoch's metrics. Those of its batches would have to be fetched from the device each time."""
    numbers = {name: float(value) for name, value in (logs or {}).items() if getattr(value, "ndim", 0) == 0}
    if numbers and step_counter.total and is_training_process():
        launcher.send(
            {
                "op": "report",
                "step": step_counter.total,
                "counted": True,
                "metrics": numbers,
                "at_monotonic_s": time.monotonic(),
            }
        )


def _warn_isolated():
    """Warn for torch and TensorFlow. JAX is checked when it makes its devices (`frameworks`)."""
    config = sys.modules.get("keras.src.backend.config")
    backend = config.backend() if config else "tensorflow"  # `tf_keras` has no other
    if backend == "torch":
        warn_isolated()
    elif backend == "tensorflow" and not _tensorflow_in_cluster():
        warn_isolated(
            f"after {SYNCHRONIZED_BY_STEP} steps TensorFlow is in no cluster. Make and compile the model in the scope"
            " of a tf.distribute.MultiWorkerMirroredStrategy, or ask for workers: 1"
        )


def _tensorflow_in_cluster():
    """True if there is a strategy with several workers. It joins the cluster before the first variable."""
    context = sys.modules["tensorflow.python.eager.context"].context()
    return bool(context._collective_ops_server_def or context._server_def or context.coordination_service)
