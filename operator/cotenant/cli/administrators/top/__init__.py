"""`cotenant top`: queues, GPUs and who waits, live in a terminal.

`verb` reads the cluster and the keyboard; `rows` has what each view lists; `keys` what a key does; `screen` draws. All
but the verb are pure: documents, keys and a time in, values out. Open to `administrators` alone.
"""
