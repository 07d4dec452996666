"""Measurements and fault runs, each a script at the top (`python bench/packing.py`), its parts in a folder beside it.

They may import the product and `tests.support`; nothing imports them.
"""
