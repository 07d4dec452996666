"""A Ray Train program without a framework: counts steps, saves every twentieth and when it is asked to leave."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import ray.train
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

STEPS = int(sys.argv[1])


def train() -> None:
    rank = ray.train.get_context().get_world_rank()
    start = 0
    if found := ray.train.get_checkpoint():
        with found.as_directory() as directory:
            start = json.loads((Path(directory) / "state.json").read_text())["step"]
    print(f"worker {rank} starts at {start}", flush=True)
    noticed = False
    for step in range(start + 1, STEPS + 1):
        time.sleep(0.05)
        # Save when the notice comes and go on: a function that returns has finished, and would not be resumed.
        notice = not noticed and ray.train.get_preemption_info() is not None
        noticed |= notice
        if notice or step % 20 == 0 or step == STEPS:
            with tempfile.TemporaryDirectory() as directory:
                (Path(directory) / "state.json").write_text(json.dumps({"step": step}))
                checkpoint = Checkpoint.from_directory(directory) if rank == 0 else None
                ray.train.report({"step": step}, checkpoint=checkpoint)
            if notice:
                print(f"worker {rank} saved {step} on notice", flush=True)


if __name__ == "__main__":
    trainer = DataParallelTrainer(
        train,
        scaling_config=ScalingConfig(num_workers=int(os.environ["COTENANT_WORKERS"]), placement_strategy="SPREAD"),
        run_config=RunConfig(
            name=os.environ["COTENANT_RUN_NAME"],
            storage_path=os.environ["COTENANT_CHECKPOINT_DIR"],
            failure_config=FailureConfig(max_failures=2),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    print("final", trainer.fit().metrics, flush=True)
