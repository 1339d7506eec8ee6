"""Stands in for the get-pip script that ansible-test would download: pip comes with Python."""

import ensurepip

ensurepip.bootstrap()
