# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The format of C(azure_cluster), in the form of an Ansible argument spec with variants.

An option with C(variants) is a mapping whose key C(type) selects the other keys. docs/azure-cluster.md has every key.
"""

from __future__ import annotations

import typing as t

Option = dict[str, t.Any]

_STR: Option = {"type": "str"}
_NAME: Option = {"type": "str", "required": True}
_INT: Option = {"type": "int"}

# Premium disks for systems, because a Standard disk of this size has 500 operations a second.
_MANAGED_DISK: dict[str, Option] = {
    "size_gib": {"type": "int", "default": 128},
    "sku": {
        "type": "str",
        "choices": ["Premium_LRS", "StandardSSD_LRS", "Standard_LRS", "Premium_ZRS", "StandardSSD_ZRS"],
        "default": "Premium_LRS",
    },
}
_DATA_DISKS: Option = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {
        "size_gib": {"type": "int", "required": True},
        "sku": {
            "type": "str",
            "choices": ["Premium_LRS", "StandardSSD_LRS", "Standard_LRS"],
            "default": "Premium_LRS",
        },
    },
}
_MACHINE: dict[str, Option] = {
    "image": _STR,
    "os_disk": {"type": "dict", "default": {}, "options": _MANAGED_DISK},
    "zone": _STR,
}

NETWORK: Option = {
    "type": "dict",
    "default": {},
    "variants": {
        "new": {
            "address_space": {"type": "str", "default": "10.10.0.0/16"},
            "subnets": {
                "type": "dict",
                "default": {},
                "options": dict.fromkeys(("head", "nodes", "bastion", "anf", "amlfs"), _STR),
            },
        },
        "existing": {
            "resource_group": _NAME,
            "name": _NAME,
            "head_subnet": _NAME,
            "node_subnet": _NAME,
            "head_addresses": _NAME,
            "node_addresses": _NAME,
            "anf_subnet": _STR,
            "amlfs_subnet": _STR,
        },
    },
}

ACCESS: Option = {
    "type": "dict",
    "default": {},
    "variants": {
        "bastion": {"sku": {"type": "str", "choices": ["Standard", "Premium"], "default": "Standard"}},
        "public": {"allowed_from": {"type": "list", "elements": "str", "required": True}},
        "none": {},
    },
}

OS_DISK: Option = {
    "type": "dict",
    "default": {},
    "variants": {
        "auto": {"size_gib": _INT},
        "ephemeral": {"size_gib": _INT},
        "managed": {**_MANAGED_DISK, "size_gib": _INT},
    },
}

RESERVATION: Option = {
    "type": "dict",
    "default": {},
    "variants": {"none": {}, "new": {"count": _INT}, "existing": {"id": _NAME}},
}

GPU_SET: dict[str, Option] = {
    "name": _NAME,
    "vm_size": _NAME,
    "count": {"type": "int", "required": True},
    "max_count": _INT,
    "priority": {"type": "str", "choices": ["regular", "spot"], "default": "regular"},
    "eviction_policy": {"type": "str", "choices": ["Delete", "Deallocate"], "default": "Delete"},
    "max_price": {"type": "float", "default": -1},
    "capacity_reservation": RESERVATION,
    "proximity": {"type": "bool", "default": False},
    "elastic": {"type": "bool", "default": False},
    "gpu_imex": {"type": "str", "choices": ["none"]},
    "zone": _STR,
    "image": _STR,
    "os_disk": OS_DISK,
    "instances_per_group": {"type": "int", "default": 100},
}

STORAGE: Option = {
    "type": "dict",
    "variants": {
        "head": {},
        "azure_files": {"size_gib": {"type": "int", "default": 1024}, "path": {"type": "path", "default": "/shared"}},
        "anf": {
            "size_gib": {"type": "int", "default": 4096},
            "service_level": {"type": "str", "choices": ["Standard", "Premium", "Ultra"], "default": "Premium"},
            "path": {"type": "path", "default": "/shared"},
        },
        "amlfs": {
            "sku": {
                "type": "str",
                "choices": [f"AMLFS-Durable-Premium-{speed}" for speed in (40, 125, 250, 500)],
                "default": "AMLFS-Durable-Premium-125",
            },
            "size_tib": {"type": "int", "default": 16},
            "zone": _STR,
            "path": {"type": "path", "default": "/lustre"},
        },
        "existing": {
            "source": _NAME,
            "filesystem": {"type": "str", "choices": ["nfs", "lustre"], "default": "nfs"},
            "path": {"type": "path", "required": True},
        },
    },
}

CLUSTER: dict[str, Option] = {
    "name": _NAME,
    "subscription_id": _NAME,
    "location": _NAME,
    "resource_group": _STR,
    "tags": {"type": "dict", "default": {}},
    "delete_after": _STR,
    "image": _STR,
    "security_type": {"type": "str", "choices": ["Standard", "TrustedLaunch"], "default": "Standard"},
    "network": NETWORK,
    "access": ACCESS,
    "admin": {
        "type": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "default": "azureuser"},
            "ssh_keys": {"type": "list", "elements": "str", "required": True},
        },
    },
    "identity": {
        "type": "dict",
        "default": {},
        "options": {
            "controller_role": {"type": "str", "choices": ["reader", "custom", "none"]},
            "repair": {"type": "bool", "default": False},
        },
    },
    "controller": {
        "type": "dict",
        "default": {},
        "options": {
            "vm_size": {"type": "str", "default": "Standard_D8as_v5"},
            **_MACHINE,
            "data_disks": _DATA_DISKS,
        },
    },
    "login": {
        "type": "dict",
        "default": {},
        "options": {
            "count": {"type": "int", "default": 0},
            "vm_size": {"type": "str", "default": "Standard_D4as_v5"},
            **_MACHINE,
        },
    },
    "gpu_sets": {"type": "list", "elements": "dict", "required": True, "options": GPU_SET},
    "storage": {"type": "list", "elements": "dict", "default": [{"type": "head"}], "element": STORAGE},
    "monitoring": {"type": "str", "choices": ["none", "metrics", "logs"], "default": "none"},
    "prices": {
        "type": "dict",
        "default": {},
        "options": {
            "currency": {"type": "str", "default": "USD"},
            "hourly": {"type": "dict", "default": {}},
            "spot_hourly": {"type": "dict", "default": {}},
        },
    },
}
