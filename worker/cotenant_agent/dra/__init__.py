"""The agent as a driver of Dynamic Resource Allocation: the node's GPUs are devices that the kube-scheduler counts.

Every GPU is published as a device with consumable capacity, so the scheduler refuses to allocate more than there is.
Claims that the kubelet has prepared for a pod are kept on disk, and given to the container runtime by CDI. Entry point:
`driver`.
"""
