"""evr_trainer."""
