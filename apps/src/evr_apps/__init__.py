"""evr_apps."""
