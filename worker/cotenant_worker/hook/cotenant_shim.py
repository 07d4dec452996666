"""Inside every Python process of a rank: memory limits before user code, defaults for frameworks, a pulse.

Stdlib only and self-contained, because it is loaded by path into whatever interpreter the image has (3.8 and later).
It changes nothing until a framework is imported, and then only: a cap on the GPU memory pool, gloo where NCCL cannot
work, JAX's missing arguments, a count of optimizer steps, and a side thread that tells the launcher how far we are.
It is cooperative: `python -S`, `-I` and `-E` go round it, and the agent's watchdog is what catches those.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import mmap
import os
import re
import socket
import struct
import sys
import threading
import time

EXIT_QUOTA = 83
_BEAT_S = 0.5
_WORDS = ("calls", "stop_at", "step", "sequence", "saved_step")


def _complain(text):
    sys.stderr.write(f"cotenant: {text}\n")
    sys.stderr.flush()


# -- talking to the launcher ---------------------------------------------------------------------------------------


class Pulse:
    """This process's line to its launcher. Quiet when there is none: a program never fails because of it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._socket = None
        self._pid = 0
        self._thread = None
        self._cell = None
        self._pending = None
        self._sent_at = 0.0
        self._peak = 0
        self.sequence = None
        """A function that counts the collectives entered, once a process group exists."""

    @property
    def rank(self):
        return int(os.environ.get("RANK", "0"))

    def cell(self):
        """The words shared with the launcher; None outside a rank."""
        if self._cell is None:
            path = os.path.join(os.environ.get("COTENANT_STATE_DIR", "/nowhere"), f"rank-{self.rank}.cell")
            with contextlib.suppress(OSError, ValueError), open(path, "r+b") as file:
                self._cell = mmap.mmap(file.fileno(), 64)
        return self._cell

    def word(self, name, value=None):
        cell = self.cell()
        if cell is None:
            return 0
        at = _WORDS.index(name) * 8
        if value is not None:
            struct.pack_into("<q", cell, at, value)
            return value
        return struct.unpack_from("<q", cell, at)[0]

    def send(self, message):
        with self._lock:
            if self._pid != os.getpid():  # never share a connection across a fork
                self._socket, self._pid = None, os.getpid()
            try:
                if self._socket is None:
                    self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                    self._socket.settimeout(5)
                    self._socket.connect(os.path.join(os.environ["COTENANT_STATE_DIR"], "launcher.sock"))
                    self._write({"op": "hello", "role": "rank", "rank": self.rank, "pid": self._pid})
                self._write(message)
            except (OSError, KeyError):
                self._socket = None
                return False
            return True

    def _write(self, message):
        message.setdefault("rank", self.rank)
        self._socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def report(self, message):
        """Send now or, when the last one left a moment ago, with the next beat: a loop may call it every step."""
        now = time.monotonic()
        if now - self._sent_at < 0.1:
            if self._pending and "metrics" in self._pending:
                message["metrics"] = dict(self._pending["metrics"], **message.get("metrics", {}))
            self._pending = message
            self.start(asked=True)
            return
        self._sent_at = now
        self._pending = None
        self.send(message)
        self.start(asked=True)

    def flush(self):
        message, self._pending = self._pending, None
        if message is not None:
            self.send(message)

    def start(self, asked=False):
        """The side thread; once per process, and in a rank's children only when they report by themselves."""
        if self._thread is None and (asked or is_main_process()):
            self._thread = threading.Thread(target=self._run, name="cotenant", daemon=True)
            self._thread.start()
            atexit.register(self.last_words)

    def last_words(self):
        with contextlib.suppress(Exception):
            self.flush()
            self._memory()
            self._steps(final=True)

    def _run(self):
        counted = -1
        while True:
            time.sleep(_BEAT_S)
            with contextlib.suppress(Exception):
                self.flush()
                counted = self._steps(counted)
                if self.sequence is not None:
                    number = int(self.sequence())
                    self.word("sequence", number)
                    self.send({"op": "beat", "beat": self._beat(number)})
                self._memory()

    def _steps(self, counted=-1, final=False):
        step = self.word("step")
        if step > 0 and (final or step != counted):
            self.send({"op": "report", "step": step, "counted": True, "at": time.time()})
        return step

    def _beat(self, number):
        generation = int(os.environ.get("COTENANT_RESTART", "0"))
        return {"rank": self.rank, "generation": generation, "sequence": number, "where": main_thread_place()}

    def _memory(self):
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return
        peak = max((cuda.max_memory_reserved(i) for i in range(cuda.device_count())), default=0) >> 20
        if peak > self._peak:
            self._peak = peak
            self.send({"op": "memory", "peak_mib": peak})


pulse = Pulse()
_main_process = {}  # type: ignore[var-annotated]


def is_main_process():
    """The first Python process of this rank; DataLoader workers and other children are not it."""
    pid = os.getpid()
    if pid not in _main_process:
        _main_process.clear()
        _main_process[pid] = False
        generation = os.environ.get("COTENANT_RESTART")
        state = os.environ.get("COTENANT_STATE_DIR")
        if generation is not None and state and "RANK" in os.environ:
            flag = os.path.join(state, f"rank-{pulse.rank}.main-{generation}")
            with contextlib.suppress(OSError):
                with open(flag, "x") as file:
                    file.write(str(pid))
                _main_process[pid] = True
    return _main_process[pid]


def main_thread_place():
    """file:line of the main thread's innermost frame that is not inside a library."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    while frame is not None:
        name = frame.f_code.co_filename
        if "site-packages" not in name and "/lib/python" not in name and "cotenant" not in name and name[:1] != "<":
            return f"{os.path.basename(name)}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def begin():
    """A rank's process has begun: say which GPUs it sees. Called at interpreter start, and after a fork by `warm`."""
    if "COTENANT_RESTART" in os.environ and "RANK" in os.environ and is_main_process():
        seen = [part for part in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part]
        pulse.send({"op": "sees", "uuids": seen})


# -- limits --------------------------------------------------------------------------------------------------------


def limits():
    """UUID → {pool, total, quota} in bytes; empty where nothing is limited."""
    text = os.environ.get("COTENANT_LIMITS", "")
    return json.loads(text) if text else {}


def fraction_of(limit, total):
    return int(limit["pool"] / total * 1e6) / 1e6


def merged_alloc_conf(value, fraction):
    """The tenant's allocator settings with our limit last: for one key, the last one counts."""
    kept = [part for part in value.split(",") if part and not part.strip().startswith("per_process_memory_fraction")]
    return ",".join([*kept, f"per_process_memory_fraction:{fraction:.6f}"])


def _before_torch(spec):
    """Before torch runs: its allocator reads the limit by itself where it knows the key (2.10 and later)."""
    found = limits()
    if not found or not spec.origin:
        return
    with contextlib.suppress(OSError):
        with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
            match = re.search(r"__version__ = ['\"](\d+)\.(\d+)", file.read())
        if match and (int(match[1]), int(match[2])) >= (2, 10):
            least = min(fraction_of(limit, limit["total"]) for limit in found.values())
            name = "PYTORCH_ALLOC_CONF"
            before = os.environ.get(name) or os.environ.pop("PYTORCH_CUDA_ALLOC_CONF", "")
            os.environ[name] = merged_alloc_conf(before, least)


def _after_torch(torch):
    if hasattr(torch, "cuda") and hasattr(torch.cuda, "_lazy_call"):
        torch.cuda._lazy_call(_limit_torch)


def _limit_torch():
    """Queued by torch until CUDA starts in this process; the environment is read then, after any fork."""
    import torch

    found = limits()
    seen = []
    by_hex = {uuid.split("-", 1)[-1]: limit for uuid, limit in found.items()}
    try:
        caps = {}
        for index in range(torch.cuda.device_count()):
            uuid = str(getattr(torch.cuda.get_device_properties(index), "uuid", ""))
            seen.append(f"GPU-{uuid}")
            limit = by_hex.get(uuid) or (next(iter(found.values())) if len(found) == 1 else None)
            if limit is not None:
                caps[index] = fraction_of(limit, torch.cuda.mem_get_info(index)[1])
                torch.cuda.set_per_process_memory_fraction(caps[index], index)
        if caps:
            _cap_setter(torch.cuda, caps)
    except Exception as error:
        if found:
            _complain(f"the GPU memory limit could not be set: {type(error).__name__}: {error}")
            os._exit(EXIT_QUOTA)
        return
    if seen and is_main_process():
        pulse.send({"op": "sees", "uuids": seen})
        pulse.start()
    elif found and seen and os.environ.get("RANK"):
        text = f"rank {pulse.rank} uses its GPU from several processes; each may take the whole limit"
        pulse.send({"op": "warning", "key": f"processes-{pulse.rank}", "text": text})


def _cap_setter(cuda, caps):
    """The program may lower its limit, not raise it."""
    original = cuda.set_per_process_memory_fraction

    def set_per_process_memory_fraction(fraction, device=None):
        index = cuda.current_device() if device is None else getattr(device, "index", device)
        return original(min(fraction, caps.get(index, 1.0)), device)

    cuda.set_per_process_memory_fraction = set_per_process_memory_fraction


def _after_tensorflow(tf):
    found = list(limits().values())
    if not found:
        return
    try:
        devices = tf.config.list_physical_devices("GPU")
        for device, limit in zip(devices, found):  # noqa: B905 - Python 3.8 has no strict=
            piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit["pool"] >> 20)
            tf.config.set_logical_device_configuration(device, [piece])
    except Exception as error:
        _complain(f"the GPU memory limit of TensorFlow could not be set: {type(error).__name__}: {error}")
        os._exit(EXIT_QUOTA)
    if devices:
        # A limited device cannot also grow; programs that ask for growth get what they meant.
        tf.config.experimental.set_memory_growth = lambda *_args, **_kwargs: None


# -- frameworks ----------------------------------------------------------------------------------------------------


def substitute_backend(backend):
    """`nccl` becomes gloo where the launcher said so."""
    if os.environ.get("COTENANT_COLLECTIVE") != "gloo" or backend is None:
        return backend
    return re.sub(r"\bnccl\b", "gloo", str(backend), flags=re.IGNORECASE) if "nccl" in str(backend).lower() else backend


def _after_distributed(c10d):
    original = c10d.init_process_group

    def init_process_group(backend=None, *args, **kwargs):
        chosen = substitute_backend(backend)
        if chosen != backend:
            if is_main_process():
                _complain(f"backend {backend!r} cannot work here (see the job's progress); using {chosen!r}")
            kwargs.pop("device_id", None)
        result = original(chosen, *args, **kwargs)
        with contextlib.suppress(Exception):
            pulse.send({"op": "mark", "what": f"process group of rank {pulse.rank}"})
            pulse.sequence = lambda: c10d._world.default_pg._get_sequence_number_for_group()  # noqa: PLW0108 - the group may be replaced
            pulse.start()
        preflight(c10d)
        return result

    init_process_group.__doc__ = original.__doc__
    init_process_group.__wrapped__ = original
    c10d.init_process_group = init_process_group


def preflight(c10d):
    """Before step 0: is the all-reduce right, how fast is it, how fast is this rank by itself? Some milliseconds.

    Skipped for worlds that are not the job's, and where ranks still have to choose among several GPUs.
    """
    env = os.environ
    if env.get("COTENANT_PREFLIGHT", "1") == "0" or c10d.get_world_size() != int(env.get("WORLD_SIZE", "0")):
        return
    import torch

    cuda = "nccl" in str(c10d.get_backend())
    if not is_main_process() or (cuda and torch.cuda.device_count() != 1):
        return
    device = "cuda" if cuda else "cpu"
    wait = torch.cuda.synchronize if cuda else (lambda: None)
    words = torch.ones(1 << (22 if cuda else 18), dtype=torch.float32, device=device)
    c10d.all_reduce(words)  # the first one also makes the connections
    best = None
    for _ in range(3):
        words.fill_(1.0)
        wait()
        begin = time.perf_counter()
        c10d.all_reduce(words)
        wait()
        took = time.perf_counter() - begin
        best = took if best is None else min(best, took)
    low, high, size = float(words.min()), float(words.max()), c10d.get_world_size()
    if (low, high) != (size, size):
        raise RuntimeError(f"cotenant: the all-reduce is wrong: ones over {size} ranks gave {low} to {high}")
    own = _own_speed(torch, device, wait)
    pulse.send({"op": "preflight", "ms": best * 1e3, "bytes": words.numel() * 4, "own_ms": own * 1e3, "device": device})


def _own_speed(torch, device, wait):
    """Seconds of the same small work on every rank: the best of five, so that one interruption does not count."""
    side = 1024 if device == "cuda" else 192
    matrix = torch.ones(side, side, device=device)
    times = []
    for _ in range(5):
        wait()
        begin = time.perf_counter()
        for _ in range(8):
            matrix = (matrix @ matrix).clamp_(-1.0, 1.0)
        wait()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def _after_data_parallel(module):
    """The job's `precision`: forward passes of DDP run under autocast and give float32 back, as Accelerate does it."""
    original = module.DistributedDataParallel.forward

    def forward(self, *inputs, **kwargs):
        import torch

        chosen = os.environ.get("COTENANT_PRECISION", "fp32")
        if chosen == "fp32" or torch.is_autocast_enabled(self.device_type) or "accelerate" in sys.modules:
            return original(self, *inputs, **kwargs)  # nothing asked, or the program decides by itself
        if scaling is not None and scaling.usable:
            scaling.active = True
            scaling.watch(self.module.parameters())
        with torch.autocast(self.device_type, dtype=torch.bfloat16 if chosen == "bf16" else torch.float16):
            result = original(self, *inputs, **kwargs)
        return _to_float(result, torch)

    module.DistributedDataParallel.forward = forward
    scaling = loss_scaling()
    if scaling is not None:
        import torch

        scaling.scale_backward(torch.autograd, torch)
        if not scaling.usable:
            _warn_precision("precision fp16: this torch cannot scale losses unasked; use torch.amp.GradScaler or bf16")


_scaling = []  # type: ignore[var-annotated]


def loss_scaling():
    """This process's `Scaling` where the job says fp16; None elsewhere."""
    if os.environ.get("COTENANT_PRECISION") != "fp16":
        return None
    if not _scaling:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cotenant_scaling.py")
        spec = importlib.util.spec_from_file_location("cotenant_scaling", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _scaling.append(module.Scaling(_warn_precision))
    return _scaling[0]


def _warn_precision(text):
    pulse.send({"op": "warning", "key": "precision", "text": f"rank {pulse.rank}: {text}"})


def _to_float(value, torch):
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if isinstance(value, dict):
        return type(value)({name: _to_float(each, torch) for name, each in value.items()})
    if type(value) in (list, tuple):
        return type(value)(_to_float(each, torch) for each in value)
    return value


def _after_optimizer(module):
    """Steps of programs that do not report: those of the first optimizer, counted where every optimizer passes."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        return
    first = []
    count = [0]

    def stepped(optimizer, _args, _kwargs):
        if not first:
            if not is_main_process():
                first.append(None)
                return
            first.append(id(optimizer))
            pulse.send({"op": "mark", "what": f"first step of rank {pulse.rank}"})
            pulse.start()
        if first[0] == id(optimizer):
            count[0] += 1
            pulse.word("step", count[0])

    register(stepped)
    _scale_losses(module)


def _scale_losses(module):
    """Every parameter that an optimizer holds gets its gradients unscaled; a step with overflowed ones is left out."""
    scaling = loss_scaling()
    if scaling is None:
        return
    import torch

    original = module.Optimizer.add_param_group

    def add_param_group(self, param_group):
        original(self, param_group)
        scaling.watch(self.param_groups[-1]["params"])

    module.Optimizer.add_param_group = add_param_group
    scaling.usable = True
    module.register_optimizer_step_pre_hook(lambda optimizer, _args, _kwargs: scaling.before_step(optimizer, torch))


def _after_jax_distributed(module):
    """`initialize()` without arguments; and no search for a cluster, which in a pod would be the API server's word."""
    import inspect

    original = module.initialize
    signature = inspect.signature(original)

    def initialize(*args, **kwargs):
        given = signature.bind_partial(*args, **kwargs).arguments
        env = os.environ
        if "JAX_PROCESS_ID" in env and "JAX_NUM_PROCESSES" in env:
            ours = {
                "num_processes": int(env["JAX_NUM_PROCESSES"]),
                "process_id": int(env["JAX_PROCESS_ID"]),
                "cluster_detection_method": "deactivate",
            }
            where = env.get("JAX_COORDINATOR_ADDRESS")
            if given.get("coordinator_address") in (None, where):
                ours["coordinator_address"] = ours["coordinator_bind_address"] = where
            for name, value in ours.items():
                if name in signature.parameters and given.get(name) is None:
                    given[name] = value
        return original(**given)

    initialize.__doc__ = original.__doc__
    module.initialize = initialize


def _after_ray_train(module):
    """Ray Train's reports are reports."""
    original = module.report
    count = [0]

    def report(metrics, *args, **kwargs):
        count[0] += 1
        with contextlib.suppress(Exception):
            if count[0] == 1:
                begin()
            numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, (int, float))}
            step = int(numbers.get("step", count[0]))
            pulse.report({"op": "report", "step": step, "metrics": numbers, "at": time.time()})
            if kwargs.get("checkpoint") is not None:
                pulse.send({"op": "saved", "step": step})
        return original(metrics, *args, **kwargs)

    report.__doc__ = original.__doc__
    module.report = report


_BEFORE = {"torch": _before_torch}
_AFTER = {
    "torch": _after_torch,
    "torch.distributed.distributed_c10d": _after_distributed,
    "torch.nn.parallel.distributed": _after_data_parallel,
    "torch.optim.optimizer": _after_optimizer,
    "tensorflow": _after_tensorflow,
    "ray.train": _after_ray_train,
    "jax.distributed": _after_jax_distributed,
}


class _Loader:
    """The real loader, with our function after it."""

    def __init__(self, inner, after):
        self._inner = inner
        self._after = after

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def create_module(self, spec):
        return self._inner.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._inner
        self._inner.exec_module(module)
        try:
            self._after(module)
        except Exception as error:
            _complain(f"cannot adapt {module.__name__}: {type(error).__name__}: {error}")
            if limits() and module.__name__ in ("torch", "tensorflow"):
                os._exit(EXIT_QUOTA)


class _Finder:
    """First on sys.meta_path; sees every import, cares about a handful."""

    def __init__(self):
        self._busy = threading.local()

    def find_spec(self, name, path=None, target=None):
        after = _AFTER.get(name)
        if after is None or getattr(self._busy, "name", None) == name:
            return None
        self._busy.name = name
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
        finally:
            self._busy.name = None
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        before = _BEFORE.get(name)
        if before is not None:
            before(spec)
        spec.loader = _Loader(spec.loader, after)
        return spec


def install():
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    begin()
