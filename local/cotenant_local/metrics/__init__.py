"""The metrics API (metrics.k8s.io/v1beta1) of `kubectl top` and HorizontalPodAutoscalers, from the kubelets' figures.

`collector` scrapes the kubelets, `rates` makes rates of two scrapes (pure), `metrics_api` serves the API server alone.
"""
