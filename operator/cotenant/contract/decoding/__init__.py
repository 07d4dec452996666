"""Decodes everything that a tenant's process or pod says. Results are bounded, plain and finite, and nothing raises.

A document comes in by `bounded_json`, its fields by `fields`, values that a program chose by `reported_values`, every
text by `plain_text`. Stdlib only: the operator, the agent and the worker import it.
"""
