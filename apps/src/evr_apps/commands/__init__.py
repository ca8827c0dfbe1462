"""Subcommands of ``evr``; each module imports what it needs inside its command."""
