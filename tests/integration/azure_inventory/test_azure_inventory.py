"""
ansible-inventory, the plugin, azure-core and azure-identity against a server that speaks Azure over HTTPS.

Run from a checkout: python -m pytest tests/integration/azure_inventory
"""

from __future__ import annotations

import json
import stat
import sys
import typing as t

SUBSCRIPTION = "11111111-0000-0000-0000-000000000000"
OTHER = "33333333-0000-0000-0000-000000000000"
SECRET = "sEcReT-of-the-application"
Azure = t.Any  # azure_server.client.Azure, which a plain checkout imports by another name

KEYED = [{"key": "tags.owner", "prefix": "owner"}, {"key": "azure_vm_size", "prefix": "size"}]
MIXED = {
    "id": SUBSCRIPTION,
    "vms": 6,
    "uniform": [["hpc", 3]],
    "flexible": [["flex", 2]],
    "changes": [
        {"machine": "vm00003", "path": ["tags", "note"], "value": "{{ lookup('pipe', 'echo pwned') }}"},
        {"machine": "vm00003", "path": ["tags", "odd key: ünï"], "value": "a,b:c'\"[0]"},
        {"machine": "vm00004", "drop_nic": True},
        {"machine": "vm00005", "path": ["properties", "osProfile"], "delete": True},
        {"machine": "vm00005", "path": ["properties", "unheardOf"], "value": {"new": [1]}},
    ],
}


def test_machines_and_both_kinds_of_scale_sets_become_slurm_groups(azure: Azure) -> None:
    azure.control(subscriptions=[MIXED])
    options = azure.options(
        include_vmss_resource_groups=["*"],
        hostnames=["computer_name", "name"],
        ansible_host_from=["10.0.0.0/14"],
        keyed_groups=KEYED,
        compose={"rack": "azure_slurm_switch | default('none', true)", "twice": "azure_name ~ azure_name"},
        groups={"spot": "azure_priority == 'Spot'", "odd": "azure_name is match('.*[135]$')"},
    )

    run = azure.inventory(options, "-vvvv")

    assert run.rc == 0, run.err
    hosts, groups = run.hosts, run.listed
    assert len(hosts) == 11
    assert groups["slurm_controller"]["hosts"] == ["vm00000"]
    assert groups["slurm_login"]["hosts"] == ["vm00001"]
    assert len(groups["slurm_compute"]["hosts"]) == 9
    assert hosts["hpc000001"]["azure_vm_size"] == "Standard_ND96isr_H100_v5"
    assert hosts["hpc000001"]["azure_vmss"]["instance_id"] == "1"
    assert hosts["hpc000001"]["azure_slurm_switch"] == "hpc"
    assert hosts["vm00001"]["ansible_host"] == "10.0.0.1"
    assert hosts["vm00001"]["azure_public_ipv4_address"] == ["203.0.0.1"]
    assert hosts["vm00002"]["twice"] == "vm00002vm00002"
    assert hosts["vm00002"]["rack"] == "none"
    assert groups["spot"]["hosts"] == ["vm00004"]
    assert {"vm00001", "vm00003", "vm00005"} <= set(groups["odd"]["hosts"])
    # Odd tags stay text, a machine without its network facts stays a host, and a warning names it.
    assert hosts["vm00003"]["azure_tags"]["note"] == "{{ lookup('pipe', 'echo pwned') }}"
    assert '"__ansible_unsafe": "{{ lookup' in run.out
    assert hosts["vm00003"]["azure_tags"]["odd key: ünï"] == "a,b:c'\"[0]"
    assert hosts["vm00004"]["azure_facts_missing"] == ["network"]
    assert "ansible_host" not in hosts["vm00004"]
    assert "lack facts (network): vm00004" in " ".join(run.err.split())
    # Nothing secret is shown, and only documented calls were made.
    assert SECRET not in run.out + run.err
    assert "token-" not in run.out + run.err
    assert not [line for line in azure.log() if "/batch" in line]


def test_a_cached_run_asks_nothing_and_its_file_is_private(azure: Azure) -> None:
    azure.control(subscriptions=[{"id": SUBSCRIPTION, "vms": 4}])
    folder = azure.folder / "cache"
    options = azure.options(cache=True, cache_plugin="ansible.builtin.jsonfile", cache_connection=str(folder))

    first = azure.inventory(options)
    asked = len(azure.log())
    second = azure.inventory({**options, "hostvars_prefix": "az_"})
    asked_again = len(azure.log())
    third = azure.inventory({**options, "filters": {"names": ["vm00001"]}})

    assert first.rc == second.rc == third.rc == 0
    assert len(first.hosts) == len(second.hosts) == 4
    assert second.hosts["vm00000_8f26"]["az_name"] == "vm00000"
    assert len(third.hosts) == 1
    assert 0 < asked == asked_again < len(azure.log())  # other filters are another answer
    files = list(folder.iterdir())
    assert files
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not any(SECRET in file.read_text() or "token-" in file.read_text() for file in files)


def test_faults_on_the_way_are_waited_out(azure: Azure) -> None:
    azure.control(
        subscriptions=[{"id": SUBSCRIPTION, "vms": 500}],
        faults=[
            {"match": "statusOnly", "status": 429, "times": 1, "headers": {"Retry-After": "1"}, "body": {"code": "x"}},
            {"match": "networkInterfaces[?]", "status": 503, "times": 1},
            {"match": "networkInterfaces.*skiptoken", "cut": True, "times": 1},
            {"match": "virtualMachines.*skiptoken", "text": "<html>gateway</html>", "times": 1},
            {"match": "virtualMachines.*skiptoken", "expire": True, "times": 1},
        ],
    )

    run = azure.inventory(azure.options())

    assert run.rc == 0, run.err
    assert len(run.hosts) == 500
    assert all(variables["azure_private_ipv4_addresses"] for variables in run.hosts.values())
    assert "WARNING" not in run.err


def test_one_subscription_that_is_refused_is_named_and_strict_makes_it_fatal(azure: Azure) -> None:
    two = [{"id": SUBSCRIPTION, "vms": 3}, {"id": OTHER, "name": "secret project", "vms": 3}]
    azure.control(subscriptions=two, hidden=[OTHER])
    options = azure.options(subscriptions=[SUBSCRIPTION, OTHER])

    lenient = azure.inventory(options)
    strict = azure.inventory({**options, "strict": True})

    assert lenient.rc == 0
    assert len(lenient.hosts) == 3
    assert OTHER in lenient.err
    assert strict.rc != 0
    assert OTHER in strict.err


def test_a_wrong_secret_and_a_wrong_option_are_said_in_one_line(azure: Azure) -> None:
    azure.control(
        subscriptions=[{"id": SUBSCRIPTION, "vms": 1}],
        faults=[
            {
                "match": "oauth2",
                "status": 401,
                "body": {
                    "error": "invalid_client",
                    "error_description": "AADSTS7000215: Invalid client secret provided.",
                },
            }
        ],
    )

    wrong_secret = azure.inventory(azure.options(), "-vvvv")
    wrong_option = azure.inventory(azure.options(filters={"colour": "blue"}))

    assert wrong_secret.rc != 0
    assert "signing in to Azure failed" in wrong_secret.err
    assert "AADSTS7000215" in wrong_secret.err
    assert SECRET not in wrong_secret.err
    assert wrong_option.rc != 0
    assert "filters has the unknown key 'colour'" in " ".join(wrong_option.err.split())


def test_the_cli_signs_in_and_names_the_subscription(azure: Azure) -> None:
    azure.control(subscriptions=[{"id": SUBSCRIPTION, "vms": 2}])
    tool = azure.folder / "bin" / "az"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(
        f"""#!{sys.executable}
import json, ssl, urllib.request
context = ssl.create_default_context(cafile={str(azure.certificate)!r})
answer = urllib.request.urlopen({azure.url!r} + "/t/oauth2/v2.0/token", context=context)
print(json.dumps({{"accessToken": json.load(answer)["access_token"], "expires_on": 9999999999}}))
"""
    )
    tool.chmod(0o755)
    (azure.folder / ".azure").mkdir(exist_ok=True)
    profile = {"subscriptions": [{"id": SUBSCRIPTION, "isDefault": True, "name": "hpc"}]}
    (azure.folder / ".azure" / "azureProfile.json").write_text(json.dumps(profile), encoding="utf-8-sig")
    options = {"plugin": "hpcai.gpucluster.azure_vms", "cloud_environment": azure.url, "auth_source": "cli"}

    run = azure.inventory(options, environment={"PATH": f"{tool.parent}:/usr/local/bin:/usr/bin:/bin"})

    assert run.rc == 0, run.err
    assert len(run.hosts) == 2
