"""Raw dumps to examples."""
