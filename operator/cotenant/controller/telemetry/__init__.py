"""Logs, metrics and probes of the operator. Everything may use it; it decides nothing and knows no API server."""
