"""The container runtime of the local cluster: CRI v1 (RuntimeService, ImageService), processes in namespaces.

`python -m cotenant_local.runtime --config FILE`, one per node. The kubelet comes in by `cri` and `streaming`;
`containers` decides, `inside` (standard library only) runs between a fork and the user's program.
"""
