"""`all_reduce`, `barrier` and `broadcast` for programs of any framework, over torch's process group or a gloo group.

Runs in ranks only, and is imported when a program calls it; the launcher never does.
"""
