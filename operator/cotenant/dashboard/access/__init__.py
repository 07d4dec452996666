"""Logins: sessions in memory, and the ways to log in (a code, a pasted token, a trusted proxy)."""
