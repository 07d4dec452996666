"""The agent as a device plugin of the kubelet: shares of each GPU are extended resources that the kubelet counts.

It serves clusters in which ResourceClaims have no consumable capacity (before Kubernetes 1.36). A pod names the GPU
that the ledger chose by the name of the resource that it requests, so the operator and the agent need no other message.
Entry point: `turns`.
"""
