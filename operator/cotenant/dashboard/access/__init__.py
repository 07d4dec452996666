"""Who looks: sessions in memory, and the ways into one (a code, a pasted token, a named proxy in front)."""
