"""Verbs of administrators: who holds which GPUs, what is wrong, what takes no work. RBAC decides who may use them."""
