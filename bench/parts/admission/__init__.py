"""Creates at the rate of the API server, and Kueue's minimalkueue on the same server, for `bench.admission`."""
