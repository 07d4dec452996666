"""The gRPC side of the runtime: services, messages and status codes of CRI v1, over the parts of one node.

Translates and never decides: a call becomes one method of `containers`, an error becomes a status code.
"""
