"""The checks of `cotenant doctor`: what Cotenant needs of a cluster, and which platforms the cluster is made of."""
