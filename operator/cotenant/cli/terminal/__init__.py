"""What all verbs that ask a cluster share: flags, the way to the API server, how answers are printed, `--watch`.

Words and letters are kubectl's. Open to all verbs.
"""
