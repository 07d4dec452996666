"""The dashboard: pages about queues, GPUs and jobs, each as the person who looks may see it.

It has no rights of its own. `access` knows whose token a browser has shown; `reading` follows objects and asks the
operator with that token; `views` are pure: rows in, what a page shows out; templates and assets are all that a
browser gets. Nothing is decided or computed here that the operator or an object says. Open to the command line.
"""
