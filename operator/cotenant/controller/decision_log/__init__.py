"""Writes the decision log: beside the loop, bounded in memory and on its volume, dropping with a count before it waits.

`recorder` takes what the loop and the watch hand on, `archive` keeps what was recorded for questions, `rotated_files`
writes it to a volume; `past_capsules` keeps whole decisions, `kept_capsules` writes them there. Open to `main` and
`query_api`.
"""
