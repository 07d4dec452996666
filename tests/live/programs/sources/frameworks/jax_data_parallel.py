"""JAX and optax, data-parallel over all processes; SIGTERM is seen by should_stop, numbers add up by all_reduce."""

import argparse
import pickle
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from cotenant_worker import all_reduce, should_stop

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out", type=Path)
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()

jax.distributed.initialize()
mesh = Mesh(jax.devices(), ("data",))
optimizer = optax.adam(0.1)


@jax.jit
def update(weights, state, batch):
    loss, gradients = jax.value_and_grad(lambda values: jnp.mean((batch @ values) ** 2))(weights)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(weights, updates), state, loss


file = options.out / "weights.pkl"
weights = jnp.ones(4)
state = optimizer.init(weights)
begin = 0
if file.exists():
    begin, weights, state = pickle.loads(file.read_bytes())
rows = all_reduce(jnp.full(1, 2, jnp.bfloat16))
assert (rows.dtype, int(rows[0])) == (jnp.bfloat16, 2 * jax.process_count())
print("starts at", begin, "of", jax.process_count())
for step in range(begin + 1, options.steps + 1):
    if step == options.bad_batch:
        raise ValueError(f"bad batch {step}")
    time.sleep(0.02)
    local = jnp.full((2, 4), 1.0 + jax.process_index())
    batch = multihost_utils.host_local_array_to_global_array(local, mesh, PartitionSpec("data"))
    replicated = NamedSharding(mesh, PartitionSpec())
    weights, state, loss = jax.jit(update, out_shardings=replicated)(weights, state, batch)
    print("step", step)
    if should_stop():
        if jax.process_index() == 0:
            file.write_bytes(pickle.dumps((step, *jax.tree.map(jax.device_get, (weights, state)))))
        break
