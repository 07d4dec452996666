"""LightGBM on scikit-learn's digits: goes on from the file of an earlier model."""

import argparse
import time
from pathlib import Path

import lightgbm
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out", type=Path)
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()


def told(env: lightgbm.callback.CallbackEnv) -> None:
    step = env.model.num_trees()
    if step == options.bad_batch:
        raise ValueError(f"bad batch {step}")
    time.sleep(0.02)
    env.model.save_model(options.out / "new.txt")
    (options.out / "new.txt").rename(options.out / "model.txt")
    print("step", step)


features, digits = load_digits(return_X_y=True)
data = lightgbm.Dataset(features[:200], label=digits[:200] % 2)
file = options.out / "model.txt"
before = lightgbm.Booster(model_file=file) if file.exists() else None
begin = before.num_trees() if before else 0
print("starts at", begin)
parameters = {"objective": "binary", "num_leaves": 4, "num_threads": 1, "verbosity": -1}
lightgbm.train(parameters, data, options.steps - begin, init_model=before, callbacks=[told])
