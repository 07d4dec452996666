"""The program of a session's pod: starts JupyterLab, code-server, a shell or another program, and reports when it was
used.

Run as `python -m cotenant_worker.sessions`. Stdlib only, because it runs in tenants' images. The application listens
only on 127.0.0.1 of its pod. To reach it, a person needs the right to forward ports of the pod or to execute commands
there. Its token is made here, and is stored in one file of the pod.
"""
