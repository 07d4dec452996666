"""`cotenant top`: queues, GPUs and waiting jobs, live in a terminal.

`verb` reads the cluster and the keyboard, `rows` lists what each view shows, `keys` defines what a key does, `screen`
draws. All except the verb are pure: documents, keys and a time in, values out. Only `administrators` imports this
package.
"""
