"""Chaos: faults at random in worker pods (`pods`) and in a whole cluster (`cluster`), and what must hold all the same.

Scripts, and the faults, jobs and invariants that they use. Nothing of the product or of its tests imports from here.
"""
