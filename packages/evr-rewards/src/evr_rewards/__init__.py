"""evr_rewards."""
