"""evr_video."""
