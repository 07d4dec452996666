"""GPUs as the driver shows them, or simulated ones: inventory, samples, XID events, health and node capabilities.

`readings` has the values and the `GpuSource` that the rest of the agent sees; only `nvml` talks to the driver. Nothing
here knows Kubernetes.
"""
