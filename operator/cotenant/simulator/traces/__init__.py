"""Readers of published traces: which jobs arrived when and how long they really ran.

Every reader returns a `trace` and says what it left out. `formats` opens a file and recognises its layout.
"""
