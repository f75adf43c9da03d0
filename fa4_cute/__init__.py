"""Blackwell (SM100) attention in CuTe DSL: pure plans, device roles and a host interface."""
