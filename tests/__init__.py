"""Tests, in folders that mirror the product's. They import the product and `tests.support`, never `bench`."""
