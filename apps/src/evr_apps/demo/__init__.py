"""evr_apps.demo."""
