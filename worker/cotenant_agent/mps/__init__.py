"""Shares of compute by MPS v3: one control daemon for each shared GPU, one namespace in it for each claim of its pods.

`keeper` runs in a container of its own, because clients end with their daemon and the agent is updated while jobs run;
`namespaces` is the agent's part: it writes what every daemon is to have, and reads back what it has. They meet in one
folder of the host. Nothing here was tried on a GPU: it is as NVIDIA's pages on MPS v3 have it.
"""
