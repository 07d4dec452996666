"""Step counts that a framework keeps itself, because compiled code hides the steps from Python.

Under `jit` the optimizer runs inside the device's program, and nothing shows which compiled function trains. But flax
keeps `TrainState.step` or `nnx.Optimizer.step`, and so do Keras's optimizers under TensorFlow. A thread reads the
newest of these numbers, and only once it is computed: nothing waits for it, and a buffer donated to the next step
(`donate_argnums`) is not touched.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import time

from .heartbeat import SideThread, heartbeat
from .main_process import is_training_process
from .steps import KERAS_ITERATIONS, step_counter

_POLL_S = 0.5
_EXIT_POLL_S = 1.0


class CounterWatcher:
    """Polls the counters of this process in a thread of its own, because a counter that never moves is no heartbeat."""

    def __init__(self):
        self._followed = {}
        self._pending = {}
        self._last = {}
        self._moves = 0
        self._thread = None
        atexit.register(self.stop)  # as for the thread of `heartbeat`

    def stop(self):
        """End the thread before the interpreter ends, because it reads arrays of compiled code."""
        if self._thread is not None:
            self._thread.stop(_EXIT_POLL_S)

    def set_baseline(self, source, number):
        """Count `source` from `number` on."""
        self._last.setdefault(source, number)

    def follow(self, source, newest, read):
        """Poll this source. `newest()` returns its counter; `read` of the counter returns its number, or None until it
        is computed.
        """
        self._followed[source] = (newest, read)
        if self._thread is None and is_training_process():
            self._thread = SideThread(self.poll, _POLL_S)
            atexit.register(self.flush_at_exit)

    def flush_at_exit(self):
        """Wait for the last step, which may be under way. A failed program does not wait, because the step may never
        end.
        """
        end = time.monotonic() + (0 if getattr(sys, "last_value", None) is not None else _EXIT_POLL_S)
        while not self.poll() and time.monotonic() < end:
            time.sleep(0.05)
        heartbeat.flush_at_exit()  # its own may have run before, or not at all if it was registered during the exit

    def poll(self):
        """Read every followed counter. True if the newest of each could be read."""
        found = [self._poll(source, newest, read) for source, (newest, read) in list(self._followed.items())]
        return all(found)

    def _poll(self, source, newest, read):
        """Read one source. A loop may run far ahead of its device, so a number that was not computed yet is
        read again.
        """
        pending, self._pending[source] = self._pending.get(source), None
        with contextlib.suppress(Exception):
            value = newest()
            if self._update(source, read(value)):
                return True
            self._pending[source] = value
        with contextlib.suppress(Exception):
            if pending is not None and not self._update(source, read(pending)):
                self._pending[source] = pending
        return False

    def _update(self, source, number):
        """Take a number into the count if it has moved. True if there is a number."""
        if number is not None and number != self._last.setdefault(source, number):
            self._last[source] = number
            self._moves += 1
            heartbeat.activity["counters"] = lambda: self._moves  # a second training begins at 0 again
            step_counter.set_total(source, number)
        return number is not None


counter_watcher = CounterWatcher()


def computed(array):
    """The number in an array of JAX, or of its first device (`pmap`); None until it is computed."""
    if not array.is_ready():
        return None
    return int(sys.modules["numpy"].asarray(array.addressable_data(0)).flat[0])


def after_flax_train_state(module):
    """Follow `TrainState.step`. A compiled step returns a new state, and a subclass's `__init__` calls this one."""
    original = module.TrainState.__init__

    def note(self):
        if isinstance(self.step, int):  # new, or of a loop that compiles nothing
            counter_watcher.set_baseline("flax", self.step)
            step = self.step
            counter_watcher.follow("flax", lambda: step, int)
        elif type(self.step).__name__ == "ArrayImpl":  # not the tracer of a function that is being compiled
            step = self.step
            counter_watcher.follow("flax", lambda: step, computed)

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        note(self)

    module.TrainState.__init__ = init
    module.TrainState.__post_init__ = note


def after_flax_optimizer(module):
    """Follow `nnx.Optimizer.step`. `nnx.jit` stores the result in the same variable."""
    original = module.Optimizer.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            if type(_raw(self.step)).__name__ == "ArrayImpl":
                counter_watcher.set_baseline("nnx", 0)
                variable = self.step
                counter_watcher.follow("nnx", lambda: _raw(variable), computed)

    module.Optimizer.__init__ = init


def _raw(variable):
    return variable.get_raw_value() if hasattr(variable, "get_raw_value") else variable.raw_value


def after_keras_optimizer(module):
    """Follow Keras's optimizers in the program's own loops under TensorFlow. On other backends they move in
    `fit` only.
    """
    original = module.BaseOptimizer.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            if sys.modules["keras.src.backend.config"].backend() == "tensorflow":
                counter_watcher.set_baseline(KERAS_ITERATIONS, 0)
                variable = self._iterations
                counter_watcher.follow(KERAS_ITERATIONS, variable.numpy, int)

    module.BaseOptimizer.__init__ = init


def after_step_annotation(module):
    """Take the number of a step that is marked for the profiler."""
    annotation = module.StepTraceAnnotation
    enter = annotation.__init__

    def init(self, name, **kwargs):
        enter(self, name, **kwargs)
        with contextlib.suppress(Exception):
            if name == "train" and kwargs.get("step_num") is not None:
                step_counter.set_total("annotation", int(kwargs["step_num"]))

    annotation.__init__ = init
