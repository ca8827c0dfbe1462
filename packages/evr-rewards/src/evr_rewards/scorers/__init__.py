"""One scorer per file; `evr_rewards.registry` finds them by problem type."""
