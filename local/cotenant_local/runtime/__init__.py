"""The container runtime of the local cluster: CRI v1 (RuntimeService, ImageService), processes in namespaces.

Started by the supervisor as `python -m cotenant_local.runtime --config FILE`, one per node. `config.py` says what it
needs, `service.py` answers the kubelet, `sandboxes.py` and `containers.py` decide, `inside/` (standard library only)
is what runs between a fork and the user's program.
"""
