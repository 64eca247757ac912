"""Every test in this folder is an end-to-end test, marked or not."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.e2e)
