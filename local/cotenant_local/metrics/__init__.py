"""The metrics API (metrics.k8s.io/v1beta1) of `kubectl top` and HorizontalPodAutoscalers, from the kubelets' figures.

`usage` makes rates of what two looks at a kubelet say (pure), `collector` looks, `server` answers the API server.
"""
