"""Hostile input for every decoder behind the door, and what must hold of each whatever comes in.

`documents` has well-formed ones, `mutations` breaks them, `doors` are the decoders. Tests run thousands of inputs,
`bench/fuzz.py` as many as are asked for.
"""
