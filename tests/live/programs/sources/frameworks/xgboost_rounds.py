"""XGBoost: rounds with a checkpoint of each by a callback."""

import argparse
import time
from pathlib import Path

import numpy as np
import xgboost

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out", type=Path)
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()


class Told(xgboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        step = model.num_boosted_rounds()
        if step == options.bad_batch:
            raise ValueError(f"bad batch {step}")
        time.sleep(0.02)
        model.save_model(options.out / "new.json")
        (options.out / "new.json").rename(options.out / "model.json")
        print("step", step)
        return False


data = xgboost.DMatrix(np.random.default_rng(0).random((64, 3)), label=np.arange(64) % 2)
file = options.out / "model.json"
before = xgboost.Booster(model_file=file) if file.exists() else None
begin = before.num_boosted_rounds() if before else 0
print("starts at", begin)
parameters = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
xgboost.train(parameters, data, options.steps - begin, xgb_model=before, callbacks=[Told()])
