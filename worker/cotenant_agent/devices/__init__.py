"""Sources of devices of other makers than NVIDIA: what the kubelet of a node offers.

They are read as CUDA GPUs are (`gpus.readings.GpuSource`), so the rest of the agent does not depend on the
maker.
"""
