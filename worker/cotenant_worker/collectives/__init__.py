"""`all_reduce`, `barrier` and `broadcast` for programs of any framework, over torch's process group or a gloo group.

Imported in ranks only, when a program calls one of them.
"""
