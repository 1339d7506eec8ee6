# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Images of machines: a version of the marketplace, or the id of an image of the site."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import sizes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.values import wrong

if t.TYPE_CHECKING:
    from collections.abc import Iterator

_URN = re.compile(r"[A-Za-z0-9._-]+(:[A-Za-z0-9._-]+){3}")
_ID = re.compile(r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/\S+", re.IGNORECASE)


# Publishers whose images have no purchase plan, which the template would have to name: "Find Azure Marketplace
# image information using the Azure CLI", https://learn.microsoft.com/azure/virtual-machines/linux/cli-ps-findimage.
_FREE = ("canonical", "debian", "microsoft-dsvm")


def problems(where: str, image: str | None) -> Iterator[str]:
    """Yield the fault of an image: its version must be pinned, so that a node of next month equals those of today."""
    path = f"{where}.image".lstrip(".")
    if image is None or _ID.fullmatch(image):
        return
    if not _URN.fullmatch(image):
        yield wrong(path, image, f"publisher:offer:sku:version, such as {sizes.image()}, or the id of an image")
    elif image.endswith(":latest"):
        yield wrong(path, image, f"a version, such as {sizes.image()}: two nodes must not differ by their date")
    elif image.partition(":")[0].lower() not in _FREE:
        yield wrong(path, image, f"an image of {', '.join(_FREE)}, because others may need a purchase plan, or an id")


def reference(image: str) -> dict[str, str]:
    """Return the imageReference of a machine."""
    if image.startswith("/"):
        return {"id": image}
    return dict(zip(("publisher", "offer", "sku", "version"), image.split(":"), strict=True))
