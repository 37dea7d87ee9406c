"""The web: fetching, searching, requests, downloads."""
