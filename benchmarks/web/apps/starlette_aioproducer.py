"""The application of the examples."""

from examples.web_app import app

__all__ = ["app"]
