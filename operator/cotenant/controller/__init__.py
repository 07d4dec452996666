"""The only room that knows kopf and a Kubernetes client: observe → wake → snapshot → schedule → apply."""
