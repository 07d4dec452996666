"""One decision from end to end: `schedule` takes a snapshot and returns a plan.

The door of the core: controller and simulator enter here. Inside the core only `outlook` imports it, to play futures.
"""
