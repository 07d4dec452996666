"""The agent as a device plugin of the kubelet: shares of each GPU are extended resources that the kubelet counts.

For clusters without consumable capacity of ResourceClaims (before Kubernetes 1.36). A pod names the GPU that the ledger
chose by the name of the resource that it requests, so nothing has to be handed over between the two. The door: `turns`.
"""
