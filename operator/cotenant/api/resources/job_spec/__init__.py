"""The parts of the spec of a TrainingJob: the program, its environment, volumes, checkpoints, servers and tracking.

`trainingjobs` puts them together. Values only: no document is read or written here.
"""
