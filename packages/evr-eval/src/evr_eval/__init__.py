"""evr_eval."""
