"""Taxi trips: data, model and metrics."""
