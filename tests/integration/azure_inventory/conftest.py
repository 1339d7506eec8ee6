"""A server for the whole session, and ansible-inventory against it."""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a plain checkout is no package

from azure_server.client import Azure  # type: ignore[import-not-found]


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Azure]:
    """Return a running server."""
    server = Azure(tmp_path_factory.mktemp("azure"))
    yield server
    server.close()
