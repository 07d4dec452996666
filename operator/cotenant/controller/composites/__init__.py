"""Kinds that are made of other objects: one keyed reconciler, and a pure decision for each kind.

A kind is a `Composite`: what it is called, what it owns, and `decide(observed, now) -> Writes`. `CompositeController`
observes the kind and what it owns, hands each object to the decision, and carries the writes out behind the leader's
fence. Every write has a deterministic name or a guard, so that it may be repeated after a crash anywhere. What fails on
one object is written in the status of that object, and no other waits for it.
"""
