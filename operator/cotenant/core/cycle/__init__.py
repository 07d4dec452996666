"""Material of one cycle: jobs that run, what is held, the search for a place, and what was decided so far.

Open to `scheduler`, `actions` and `explain`. Nothing in here decides.
"""
