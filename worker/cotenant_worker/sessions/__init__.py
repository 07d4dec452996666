"""The program of a session's pod: starts JupyterLab, code-server, a shell or a program of one's own, and reports when
it was used. Run as `python -m cotenant_worker.sessions`. Stdlib only: it comes into images of tenants.

The application listens on 127.0.0.1 of its pod alone: who reaches it has the right to forward ports of the pod, or to
execute commands there. Its token is made here, and stands in one file of the pod.
"""
