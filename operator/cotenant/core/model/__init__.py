"""The core's nouns: jobs, nodes, queues, plans, the lifecycle of a job. Frozen values and pure functions on them.

Open to every tree of the operator. Imports nothing but itself.
"""
