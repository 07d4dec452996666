"""The API server: its interface, the REST client, credentials. Every write of the operator goes out here.

Nothing in it knows a TrainingJob, a queue or a decision.
"""
