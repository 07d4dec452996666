"""One job's life, pure: from what was observed of it to its next status and what follows. No I/O, no clock.

Each policy has a file, named after the field of the spec or the setting that it obeys.
"""
