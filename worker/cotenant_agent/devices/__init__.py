"""Sources of devices that are not NVIDIA's: what a node's kubelet offers of them.

Behind the same protocol as GPUs of CUDA (`gpus.readings.GpuSource`); the rest of the agent knows no maker.
"""
