"""Subscriptions full of machines, in the form that Resource Manager's REST specification shows."""

from __future__ import annotations

import dataclasses
import typing as t
import uuid

Item = dict[str, t.Any]

IMAGE = {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204", "version": "latest"}
SIZES = ("Standard_ND96isr_H100_v5", "Standard_ND96amsr_A100_v4", "Standard_D4s_v5", "Standard_NC24ads_A100_v4")
NETWORK = "/subscriptions/x/resourceGroups/net/providers/Microsoft.Network"
LOCATIONS = ("southcentralus", "westeurope")


@dataclasses.dataclass
class Subscription:
    """What one subscription holds."""

    id: str
    name: str
    groups: list[str] = dataclasses.field(default_factory=list)
    machines: list[Item] = dataclasses.field(default_factory=list)
    nics: list[Item] = dataclasses.field(default_factory=list)
    addresses: list[Item] = dataclasses.field(default_factory=list)
    scale_sets: list[Item] = dataclasses.field(default_factory=list)
    instances: dict[str, list[Item]] = dataclasses.field(default_factory=dict)
    instance_nics: dict[str, list[Item]] = dataclasses.field(default_factory=dict)
    instance_addresses: dict[str, list[Item]] = dataclasses.field(default_factory=dict)


def subscription(spec: Item) -> Subscription:
    """
    Return a subscription: C(vms) machines, C(uniform) and C(flexible) sets of C([name, count]), all in C(group).

    C(cluster) is CycleCloud's name, C(guest) begins the names that instances say from inside, C(bare) leaves tags to
    the sets, C(groups) are resource groups with nothing in them.
    """
    made = Subscription(spec["id"], spec.get("name", "hpc"), list(spec.get("groups", [])))
    cluster = spec.get("cluster", "training")
    group = spec.get("group", "hpc-rg")
    for number in range(spec.get("vms", 0)):
        role = ("controller", "login", "compute", "compute")[min(number, 3)]
        tags = {"slurm_role": role, "owner": f"team{number % 7}", "env": "prod"}
        _machine(made, group, f"vm{number:05}", number, tags, public=role == "login")
    for name, count in spec.get("flexible", []):
        made.scale_sets.append(_scale_set(made, group, name, count, "Flexible"))
        for number in range(count):
            tags = {"ClusterName": cluster, "CycleCloudNodeArray": f"/sites/1/clusters/{cluster}/nodearrays/{name}"}
            _machine(
                made, group, f"{name}_{uuid.uuid5(uuid.NAMESPACE_DNS, name + str(number)).hex[:8]}", number, tags, name
            )
    for name, count in spec.get("uniform", []):
        made.scale_sets.append(_scale_set(made, group, name, count, "Uniform"))
        made.scale_sets[-1]["properties"]["singlePlacementGroup"] = not spec.get("spread")
        _instances(made, group, name, count, cluster)
        _adapt(made, spec, name)
    for change in spec.get("changes", []):
        _change(made, change)
    return made


def _adapt(made: Subscription, spec: Item, name: str) -> None:
    """Give the instances of the last set names from inside, or their tags to the set alone."""
    for number, one in enumerate(made.instances[made.scale_sets[-1]["id"].lower()]):
        if spec.get("guest"):
            one["properties"]["instanceView"]["computerName"] = f"{spec['guest']}-{name}-{number + 1}"
        if spec.get("bare"):
            made.scale_sets[-1]["tags"] = {key: value for key, value in one["tags"].items() if key != "Name"}
    for one in made.instances[made.scale_sets[-1]["id"].lower()] if spec.get("bare") else []:
        one["tags"] = {}


def _change(made: Subscription, change: Item) -> None:
    """Replace a value of one machine: C(machine), C(path), C(value); or drop its network interface rows."""
    machine = next(one for one in made.machines if one["name"] == change["machine"])
    if change.get("drop_nic"):
        made.nics = [one for one in made.nics if one["properties"]["virtualMachine"]["id"] != machine["id"]]
        return
    target = machine
    *path, last = change["path"]
    for step in path:
        target = target[step]
    if change.get("delete"):
        del target[last]
    else:
        target[last] = change["value"]


def _base(made: Subscription, group: str) -> str:
    return f"/subscriptions/{made.id}/resourceGroups/{group}/providers"


def _scale_set(made: Subscription, group: str, name: str, count: int, mode: str) -> Item:
    return {
        "name": name,
        "id": f"{_base(made, group)}/Microsoft.Compute/virtualMachineScaleSets/{name}",
        "type": "Microsoft.Compute/virtualMachineScaleSets",
        "location": LOCATIONS[0],
        "tags": {"ClusterName": "training"},
        "sku": {"name": SIZES[0], "tier": "Standard", "capacity": count},
        "properties": {"singlePlacementGroup": True, "orchestrationMode": mode, "provisioningState": "Succeeded"},
    }


def _machine(
    made: Subscription, group: str, name: str, number: int, tags: Item, scale_set: str = "", public: bool = False
) -> None:
    base = _base(made, group)
    # Compute writes the resource group in capitals; nobody else does.
    machine_id = (
        f"/subscriptions/{made.id}/resourceGroups/{group.upper()}/providers/Microsoft.Compute/virtualMachines/{name}"
    )
    nic_id = f"{base}/Microsoft.Network/networkInterfaces/{name}-nic"
    size = SIZES[0] if scale_set else SIZES[2] if number < 2 else SIZES[number % 2]
    machine: Item = {
        "name": name,
        "id": machine_id,
        "type": "Microsoft.Compute/virtualMachines",
        "location": LOCATIONS[0] if scale_set else LOCATIONS[number % 2],
        "tags": tags,
        "identity": {
            "type": "SystemAssigned",
            "principalId": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
            "tenantId": made.id,
        },
        "zones": ["1"],
        "properties": _properties(name, nic_id, size, number),
    }
    if scale_set:
        machine["properties"]["virtualMachineScaleSet"] = {
            "id": f"{base}/Microsoft.Compute/virtualMachineScaleSets/{scale_set}"
        }
    made.machines.append(machine)
    address_id = f"{base}/Microsoft.Network/publicIPAddresses/{name}-ip" if public else ""
    made.nics.append(_nic(f"{name}-nic", nic_id, machine_id, number, address_id))
    if public:
        made.addresses.append(_address(f"{name}-ip", address_id, number))


def _properties(name: str, nic_id: str, size: str, number: int) -> Item:
    return {
        "vmId": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        "hardwareProfile": {"vmSize": size},
        "provisioningState": "Succeeded",
        "timeCreated": f"2026-01-{number % 28 + 1:02}T16:43:41.683Z",
        "priority": "Spot" if number % 5 == 4 else "Regular",
        "osProfile": {
            "computerName": name.replace("_", "-"),
            "adminUsername": "hpcadmin",
            "linuxConfiguration": {
                "ssh": {"publicKeys": [{"path": "/home/hpcadmin/.ssh/authorized_keys", "keyData": "KEY"}]}
            },
        },
        "storageProfile": {
            "imageReference": {**IMAGE, "exactVersion": "22.04.2026010101"},
            "osDisk": {"osType": "Linux", "name": f"{name}-os", "managedDisk": {"id": f"/disks/{name}-os"}},
            "dataDisks": [],
        },
        "networkProfile": {"networkInterfaces": [{"id": nic_id, "properties": {"primary": True}}]},
        "instanceView": {
            "computerName": name.replace("_", "-"),
            "osName": "ubuntu",
            "osVersion": "22.04",
            "hyperVGeneration": "V2",
            "statuses": [
                {"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Provisioning succeeded"},
                {"code": "PowerState/running", "level": "Info", "displayStatus": "VM running"},
            ],
        },
    }


def _nic(name: str, nic_id: str, machine_id: str, number: int, address_id: str) -> Item:
    configuration: Item = {
        "name": "ipconfig1",
        "id": f"{nic_id}/ipConfigurations/ipconfig1",
        "properties": {
            "privateIPAddress": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
            "privateIPAddressVersion": "IPv4",
            "primary": True,
            "subnet": {"id": f"{NETWORK}/virtualNetworks/hpc/subnets/compute"},
        },
    }
    if address_id:
        configuration["properties"]["publicIPAddress"] = {"id": address_id}
    return {
        "name": name,
        "id": nic_id,
        "type": "Microsoft.Network/networkInterfaces",
        "location": LOCATIONS[0],
        "properties": {
            "provisioningState": "Succeeded",
            "primary": True,
            "macAddress": f"00-0D-3A-{number // 65536:02X}-{number // 256 % 256:02X}-{number % 256:02X}",
            "enableAcceleratedNetworking": True,
            "networkSecurityGroup": {"id": f"{NETWORK}/networkSecurityGroups/nodes"},
            "virtualMachine": {"id": machine_id},
            "ipConfigurations": [configuration],
        },
    }


def _address(name: str, address_id: str, number: int) -> Item:
    return {
        "name": name,
        "id": address_id,
        "type": "Microsoft.Network/publicIPAddresses",
        "location": LOCATIONS[0],
        "properties": {
            "ipAddress": f"203.0.{number // 256 % 256}.{number % 256}",
            "publicIPAddressVersion": "IPv4",
            "dnsSettings": {"domainNameLabel": name, "fqdn": f"{name}.southcentralus.cloudapp.azure.com"},
        },
    }


def _instances(made: Subscription, group: str, name: str, count: int, cluster: str) -> None:
    set_id = f"{_base(made, group)}/Microsoft.Compute/virtualMachineScaleSets/{name}"
    machines, nics = [], []
    for number in range(count):
        instance_id = f"{set_id}/virtualMachines/{number}"
        nic_id = f"{instance_id}/networkInterfaces/nic"
        properties = _properties(f"{name}_{number}", nic_id, SIZES[0], number)
        properties["osProfile"]["computerName"] = f"{name}{number:06}"
        properties["instanceView"]["computerName"] = f"{name}{number:06}"
        properties["instanceView"]["placementGroupId"] = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}{number // 100}"))
        machines.append(
            {
                "name": f"{name}_{number}",
                "id": instance_id,
                "instanceId": str(number),
                "type": "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
                "location": LOCATIONS[0],
                "tags": {
                    "ClusterName": cluster,
                    "CycleCloudNodeArray": f"/sites/1/clusters/{cluster}/nodearrays/{name}",
                    "Name": f"{name}-{number}",
                },
                "sku": {"name": SIZES[0], "tier": "Standard"},
                "properties": properties,
            }
        )
        nic = _nic("nic", nic_id, instance_id, 131072 + number, "")
        nics.append({key: value for key, value in nic.items() if key not in ("type", "location")})
    made.instances[set_id.lower()] = machines
    made.instance_nics[set_id.lower()] = nics
    made.instance_addresses[set_id.lower()] = []
