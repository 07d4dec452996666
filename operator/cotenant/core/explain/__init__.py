"""Why a job waits, when it will start, and what would change it: reasons, forecasts and the smallest change.

Open to `actions` and `scheduler`. Changes nothing that is held, but in trials that are rolled back.
"""
