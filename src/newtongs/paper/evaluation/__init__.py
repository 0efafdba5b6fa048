"""Metrics, diagnostics and tables: ``evaluate("data/state32")["val_id"]["hold_z0"]["traj"]``."""

from .evaluate import METHODS, Report, evaluate

__all__ = ["METHODS", "Report", "evaluate"]
