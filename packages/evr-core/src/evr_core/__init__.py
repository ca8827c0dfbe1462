"""evr_core."""
