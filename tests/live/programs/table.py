"""The programs of this folder as one table: what people type, and what its worker has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "sources"
OPTIONS = ("--steps", "{steps}", "--out", "{out}", "--bad-batch", "{bad_batch}")
"""What most of them take: how many steps, where to save, and the batch that is bad (-1: none)."""


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    """What it is, as the end of a sentence."""
    folder: str
    command: tuple[str, ...]
    """As typed; `{steps}`, `{out}` and `{bad_batch}` are filled in."""
    ranks: int = 1
    gpus: int = 0
    """GPUs of each rank, all simulated."""
    environment: tuple[tuple[str, str], ...] = ()
    raises_in: str = ""
    """The file whose `raise ValueError` the verdict has to name, or the place in a notebook; empty: the program in the
    command.
    """
    needs: tuple[str, ...] = ()
    """Tools of which one has to be on this machine."""

    def command_line(self, *, steps: int, out: Path, bad_batch: int) -> tuple[str, ...]:
        return tuple(part.format(steps=steps, out=out, bad_batch=bad_batch) for part in self.command)

    @property
    def bad_line(self) -> str:
        """`file.py:12` or `cell 4, line 3`, where the program raises on its bad batch."""
        if self.raises_in.startswith("cell "):
            return self.raises_in
        name = self.raises_in or next(part for part in self.command if part.endswith(".py"))
        lines = next(SOURCES.rglob(Path(name).name)).read_text().splitlines()
        number = next(number for number, line in enumerate(lines, 1) if "raise ValueError" in line)
        return f"{Path(name).name}:{number}"


HYDRA = ("out={out}", "steps={steps}", "bad_batch={bad_batch}", "hydra.run.dir={out}/hydra")
HUGGING_FACE = ("--output_dir", "{out}", "--max_steps", "{steps}", "--bad_batch", "{bad_batch}")
PAPERMILL = ("-p", "steps", "{steps}", "-p", "out", "{out}", "-p", "bad_batch", "{bad_batch}")

PROGRAMS = (
    Program("a plain script with argparse", "settings", ("python", "plain.py", *OPTIONS)),
    Program("a Hydra application", "settings", ("python", "hydra_app.py", *HYDRA)),
    Program("a dataclass of options by tyro", "settings", ("python", "tyro_app.py", *OPTIONS)),
    Program(
        "a dataclass of options by HfArgumentParser",
        "settings",
        ("python", "hf_arguments.py", *HUGGING_FACE, "--verbose"),
    ),
    Program("a Lightning Trainer on two ranks", "frameworks", ("python", "lightning_trainer.py", *OPTIONS), ranks=2),
    Program("a Hugging Face Trainer", "frameworks", ("python", "hf_trainer.py", *HUGGING_FACE)),
    Program(
        "a loop of Accelerate behind accelerate launch",
        "frameworks",
        ("accelerate", "launch", "--cpu", "--num_processes", "2", "accelerate_loop.py", *OPTIONS),
        ranks=2,
    ),
    Program(
        "accelerate launch with the configuration of another machine",
        "frameworks",
        ("accelerate", "launch", "--config_file", "accelerate.yaml", "accelerate_loop.py", *OPTIONS),
        ranks=2,
    ),
    Program(
        "Keras's fit on torch",
        "frameworks",
        ("python", "keras_fit.py", *OPTIONS),
        environment=(("KERAS_BACKEND", "torch"),),
    ),
    Program("JAX and optax on two ranks", "frameworks", ("python", "jax_data_parallel.py", *OPTIONS), ranks=2),
    Program("XGBoost with a callback", "frameworks", ("python", "xgboost_rounds.py", *OPTIONS)),
    Program("LightGBM on scikit-learn's data", "frameworks", ("python", "boosted_trees.py", *OPTIONS)),
    Program("FSDP2 on two ranks", "frameworks", ("torchrun", "--nproc-per-node=2", "fsdp.py", *OPTIONS), ranks=2),
    Program("torch.compile", "frameworks", ("python", "compiled.py", *OPTIONS), needs=("g++", "clang++")),
    Program(
        "DDP behind torchrun",
        "launchers",
        ("torchrun", "--nproc-per-node=2", "distributed.py", *OPTIONS),
        ranks=2,
    ),
    Program("Ray actors in one worker", "launchers", ("python", "ray_actors.py", *OPTIONS)),
    Program(
        "accelerate launch on two GPUs of one worker",
        "frameworks",
        ("accelerate", "launch", "--multi_gpu", "--num_processes=2", "accelerate_loop.py", *OPTIONS),
        gpus=2,
    ),
    Program(
        "torchrun on two GPUs of one worker",
        "launchers",
        ("torchrun", "--standalone", "--nproc-per-node=2", "distributed.py", *OPTIONS),
        gpus=2,
    ),
    Program(
        "Ray Train in one worker",
        "launchers",
        ("python", "ray_train.py", *OPTIONS),
        gpus=2,
        # Of how often it looks at its workers: a report waits for that, two seconds by itself.
        environment=(("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2"),),
    ),
    Program("torch's elastic agent by its API", "launchers", ("python", "elastic_api.py", *OPTIONS), gpus=2),
    Program(
        "mp.spawn on two GPUs of one worker",
        "launchers",
        ("python", "spawned.py", "--port", "29561", *OPTIONS),
        gpus=2,
    ),
    Program(
        "torchrun inside a worker of two GPUs",
        "launchers",
        ("bash", "-c", "exec torchrun --standalone --nproc-per-node=2 distributed.py " + " ".join(OPTIONS)),
        gpus=2,
        raises_in="distributed.py",
    ),
    Program("a run script", "launchers", ("bash", "run.sh", "{steps}", "{out}", "{bad_batch}"), raises_in="plain.py"),
    Program(
        "uv run",
        "settings",
        ("uv", "run", "--no-project", "--offline", "--python", "python", "plain.py", *OPTIONS),
    ),
    Program(
        "a notebook by papermill",
        "launchers",
        ("papermill", "notebook.ipynb", "{out}/run.ipynb", "--log-output", "--progress-bar", *PAPERMILL),
        raises_in="cell 4, line 3",
    ),
    Program("a DataLoader with workers", "data", ("python", "loader_workers.py", *OPTIONS)),
    Program("a stream of webdataset", "data", ("python", "shards.py", *OPTIONS)),
)
