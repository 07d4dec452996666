"""Linear regression with parameter servers instead of an optimizer; numpy only."""

import numpy as np

from cotenant_worker import ParameterServer, context, results


class Weights:
    def __init__(self) -> None:
        self.values, self.grad = np.zeros(8, np.float32), None
        self.shape = self.values.shape

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.values

    def __setitem__(self, key: object, values: np.ndarray) -> None:
        self.values[key] = values


rank, world = context().rank, context().world_size
random = np.random.default_rng(0)
inputs = random.normal(size=(256, 8)).astype(np.float32)
targets = inputs @ np.arange(8, dtype=np.float32)
mine = slice(rank, None, world)
weights = Weights()
server = ParameterServer([weights], lr=0.1)
for _ in range(200):
    error = inputs[mine] @ weights.values - targets[mine]
    weights.grad = inputs[mine].T @ error / len(error)
    server.step()
results({"error": float(np.abs(weights.values - np.arange(8)).max())})
