"""NetworkPolicies, enforced on each node for its own pods by one nftables table in the node's network namespace.

`model` makes values of API objects, `rules` turns them into a table (pure), `enforcer` applies it. The rules of a new
pod are in place before its first container starts: the runtime has its address first.
"""
