"""Verbs of administrators, live and once: who holds what, what is wrong, what is taken out. RBAC decides who may."""
