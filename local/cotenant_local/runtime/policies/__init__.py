"""NetworkPolicies, enforced on each node for its own pods by one nftables table in the node's network namespace.

`watch` mirrors pods, namespaces and policies from the API server, `model` makes values of them, `rules` decides (pure),
`enforcer` applies. A new pod's rules are in place before its first container starts: the runtime knows first.
"""
