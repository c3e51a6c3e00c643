"""Recipes: their settings, with losses and optimisers."""
