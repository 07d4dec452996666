"""The agent as a driver of Dynamic Resource Allocation: the node's GPUs are devices that the kube-scheduler counts.

Every GPU is published as a device with consumable capacity, so the scheduler refuses more than there is, whoever asks.
What the kubelet prepares for a pod is kept on disk and handed to the container runtime by CDI. `driver` is the door.
"""
