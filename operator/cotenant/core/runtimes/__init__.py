"""Run times, learned from jobs that ended: how long may a job like this one run, and how much longer?

`templates` says which jobs are alike, `runtime_history` remembers how long they ran, `learned` answers. Open to
`snapshot` and everything above it. Knows nothing of nodes, quotas or turns.
"""
