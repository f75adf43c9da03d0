"""Tests of the device functions."""
