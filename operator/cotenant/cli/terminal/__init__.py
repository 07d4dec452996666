"""What all verbs that ask a cluster share: flags, the connection to the API server, printing, `--watch`.

Words and letters of flags are kubectl's. Every verb may import this package.
"""
