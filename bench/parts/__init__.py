"""Parts of the scripts in `bench`, and measurements that are started as modules."""
