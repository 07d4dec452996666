"""GPUs as arrays: the inventory of what there is, the ledger of what is free.

Open to the rest of the core. Knows no queues and decides nothing.
"""
