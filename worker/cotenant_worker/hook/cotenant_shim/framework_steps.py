"""Steps that a framework counts by itself, where compiled code hides them from Python.

Under `jit` the optimizer runs inside the device's program, and which of a program's compiled functions trains can only
be guessed. But flax keeps a number, `TrainState.step` or `nnx.Optimizer.step`, and so do Keras's optimizers under
TensorFlow. A thread looks at the newest of them, and only where it is computed already: nothing waits for it, and what
was given away to the next step (`donate_argnums`) is left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time

from .heartbeat import pulse
from .main_process import trains
from .steps import ITERATIONS, steps

_LOOK_S = 0.5
_LAST_S = 1.0


class Watch:
    """Of this process. Its thread is one of its own, because a counter that never moves is no sign of life."""

    def __init__(self):
        self._held = {}
        self._asked = {}
        self._last = {}
        self._moves = 0
        self._thread = None

    def begins(self, source, number):
        """So far `source` has come to `number`."""
        self._last.setdefault(source, number)

    def hold(self, source, newest, read):
        """`newest()` is its counter now, `read` of that the number of steps, or None where it cannot be told yet."""
        self._held[source] = (newest, read)
        if self._thread is None and trains():
            self._thread = threading.Thread(target=self._run, name="cotenant-steps", daemon=True)
            self._thread.start()
            atexit.register(self.last_words)

    def _run(self):
        while True:
            time.sleep(_LOOK_S)
            self.look()

    def last_words(self):
        """The last step may still be under way. It is not waited for by a program that failed: nor may it ever come."""
        end = time.monotonic() + (0 if getattr(sys, "last_value", None) is not None else _LAST_S)
        while not self.look() and time.monotonic() < end:
            time.sleep(0.05)
        pulse.last_words()  # its own came before this, or it has just begun and will not be called any more

    def look(self):
        """Whether the newest of all could be read."""
        found = [self._look(source, newest, read) for source, (newest, read) in list(self._held.items())]
        return all(found)

    def _look(self, source, newest, read):
        """A loop may run far ahead of its device: what was not computed at the last look is asked again."""
        asked, self._asked[source] = self._asked.get(source), None
        with contextlib.suppress(Exception):
            value = newest()
            if self._is(source, read(value)):
                return True
            self._asked[source] = value
        with contextlib.suppress(Exception):
            if asked is not None and not self._is(source, read(asked)):
                self._asked[source] = asked
        return False

    def _is(self, source, number):
        if number is not None and number != self._last.setdefault(source, number):
            self._last[source] = number
            self._moves += 1
            pulse.stirs["counters"] = lambda: self._moves  # a second training begins at 0 again
            steps.are(source, number)
        return number is not None


watch = Watch()


def computed(array):
    """The number in one of JAX's arrays, or the same one for each device (`pmap`)."""
    if not array.is_ready():
        return None
    return int(sys.modules["numpy"].asarray(array.addressable_data(0)).flat[0])


def after_flax_train_state(module):
    """A compiled step returns a new state each time. Subclasses have an `__init__` of their own, which ends there."""
    original = module.TrainState.__init__

    def note(self):
        if isinstance(self.step, int):  # new, or of a loop that compiles nothing
            watch.begins("flax", self.step)
            step = self.step
            watch.hold("flax", lambda: step, int)
        elif type(self.step).__name__ == "ArrayImpl":  # not what stands for it while a function is traced
            step = self.step
            watch.hold("flax", lambda: step, computed)

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        note(self)

    module.TrainState.__init__ = init
    module.TrainState.__post_init__ = note


def after_flax_optimizer(module):
    """`nnx.jit` puts what it computed back into the same variable."""
    original = module.Optimizer.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            if type(_raw(self.step)).__name__ == "ArrayImpl":
                watch.begins("nnx", 0)
                variable = self.step
                watch.hold("nnx", lambda: _raw(variable), computed)

    module.Optimizer.__init__ = init


def _raw(variable):
    return variable.get_raw_value() if hasattr(variable, "get_raw_value") else variable.raw_value


def after_keras_optimizer(module):
    """Loops of the program's own under TensorFlow. On the other backends it moves in `fit` only, which is counted."""
    original = module.BaseOptimizer.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            if sys.modules["keras.src.backend.config"].backend() == "tensorflow":
                watch.begins(ITERATIONS, 0)
                variable = self._iterations
                watch.hold(ITERATIONS, variable.numpy, int)

    module.BaseOptimizer.__init__ = init


def after_step_annotation(module):
    """A loop that marks its steps for the profiler says which one it is."""
    annotation = module.StepTraceAnnotation
    enter = annotation.__init__

    def init(self, name, **kwargs):
        enter(self, name, **kwargs)
        with contextlib.suppress(Exception):
            if name == "train" and kwargs.get("step_num") is not None:
                steps.are("annotation", int(kwargs["step_num"]))

    annotation.__init__ = init
