"""What the agent publishes: one view of the node, the GPUNode.status made from it, and the client that writes it.

`gpunode_client` is the only module here that talks to the API server.
"""
