"""The dashboard: pages about queues, GPUs and jobs. Each person sees what their own rights allow.

The dashboard has no rights of its own. `access` knows the token behind a browser's cookie. `reading` follows objects
and asks the operator with that token. `views` are pure: rows in, the content of a page out. A browser gets templates
and assets only. The dashboard decides and computes nothing that the operator or an object does not say. Only the
command line imports it.
"""
