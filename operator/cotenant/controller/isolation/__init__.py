"""How GPUs get into pods and what keeps them apart there: one protocol, one file per path, one choice per node. Pure.

Values in, values out: no client, no clock. `gpu_isolation` has the protocol, `choice` what a node gets of it.
"""
