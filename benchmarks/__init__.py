"""Measurements that are too slow or too large for the tests."""
