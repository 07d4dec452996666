"""What the agent publishes: one view of the node, GPUNode.status made from it, and the client that writes it.

`gpunode_client` is the only module of the agent that talks to the API server.
"""
