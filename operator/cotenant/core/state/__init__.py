"""The mutable state between cycles: observed facts, assumptions over them, usage history.

Open to the scheduling loop, the simulator and tests. One writer. Decisions never import it.
"""
