"""Shares of compute by MPS v3: one control daemon for each shared GPU, and one namespace in it for each claim.

`keeper` runs in a container of its own, because clients end with their daemon, and the agent is updated while jobs run.
`namespaces` is the agent's part: it writes what every daemon must have, and reads back what it has. Both use one folder
of the host. Nothing here was run on a GPU: it follows NVIDIA's pages on MPS v3.
"""
