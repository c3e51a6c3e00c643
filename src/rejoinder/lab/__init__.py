"""The papers' laboratory: tables of systems, ablations, grids, plots, and the papers' baselines.

Nothing but the command imports this room; it is `rejoinder lab` there.
"""
