"""The node agent (a DaemonSet): inventory by NVML, health, attribution of GPU memory to pods, quota watchdog.

It reports in GPUNode.status and /metrics; the operator acts. It imports nothing of `cotenant_worker`, and of the
operator's tree only the contract, the names and how `/metrics` is served.
"""
