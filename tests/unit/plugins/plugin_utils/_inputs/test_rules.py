# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import rules
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types as inputs_types

LAB = records.find("lab")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("base_hosts", {"gpu1": "10.0.1.400"}, "its IP address"),
        ("base_memlock", "much", "KiB"),
        ("base_nofile", 0, "1024 to"),
        ("base_packages", ["rm -rf /"], "names of packages"),
        ("base_sysctl", {"vm.swappiness": {"a": 1}}, "names such as vm.swappiness"),
        ("base_sysctl", {"vm swappiness": 1}, "names such as vm.swappiness"),
        ("base_time_servers", ["10.0.1.400"], "IP address"),
        ("base_time_service", "ntpd", "chrony"),
        ("base_timezone", "Europe/Berln", "did you mean Europe/Berlin?"),
        ("base_timezone", "../../etc/shadow", "a time zone"),
        ("docker_config", {"hosts": ["tcp://0.0.0.0:2375"]}, "docker_config: found hosts"),
        ("docker_data_root", "docker", "an absolute path"),
        ("docker_key_checksum", "md5:0", "64 hexadecimal digits"),
        ("docker_users", ["a b"], "names of users"),
        ("gpu_count", -1, "0 to 64"),
        ("gpu_driver_repository_key", "3bf863cc.pub", "an absolute path"),
        ("gpu_driver_repository_key_checksum", "md5:" + "0" * 32, "sha256:digest"),
        ("gpu_driver_wait_seconds", "-5", "0 to 3600"),
        ("gpu_graphics_clock", 1_000_000, "0 to 10000"),
        ("gpu_power_limit", "lots", "watts"),
        ("base_proxy", {"http": "proxy:3128"}, "http as a URL"),
        ("docker_proxy", {"https": 'http://proxy" x'}, "https as a URL"),
        ("enroot_proxy", {"htps": "http://proxy:3128"}, "did you mean https?"),
        ("gpucluster_bastion", "-oProxyCommand=id", "[USER@]HOST[:PORT]"),
        ("gpucluster_bastion", "admin@bastion -v", "[USER@]HOST[:PORT]"),
        ("gpucluster_bundle", "bundle.tar", "the absolute path of a file of bundle.yml"),
        ("gpucluster_bundle", "/no/such/bundle.tar", "the absolute path of a file of bundle.yml"),
        ("gpucluster_bundle_checksum", "md5:0", "64 hexadecimal digits"),
        ("gpucluster_containers", "maybe", "true or false"),
        ("gpucluster_proxy", "http://proxy:3128", "a mapping"),
        ("gpucluster_proxy", {"http": "http://proxy:3128", "no_proxy": ["a b"]}, "no_proxy as a list of names"),
        ("gpucluster_proxy", {"http": "http://proxy:3128", "no_proxy": ".example.com"}, "a list"),
        ("gpucluster_proxy", {"no_proxy": [".example.com"]}, "http or https next to no_proxy"),
        ("gpucluster_mirror", "mirror", "a URL"),
        ("gpucluster_nfs_server", "10.0.1.400", "IP address"),
        ("gpucluster_vm_size", "Standard_X", "unknown VM size"),
        ("gpucluster_vm_size", "Standard_ND96isr_H100", "did you mean Standard_ND96isr_H100_v5?"),
        ("gpucluster_vm_size_record", {"name": "x"}, "missing required"),
        ("gpu_hardware", "DGX_H100", "a mapping"),
        ("gpu_hardware", {"name": "x"}, "missing required"),
        ("enroot_hardware", {**LAB, "colour": "red"}, "colour"),
        ("scratch_hardware", {"gpus": [8]}, "gpus must be a mapping"),
        ("validate_hardware", {"name": "x"}, "missing required"),
        ("validate_hardware", "DGX_H100", "must be a mapping, not str"),
        ("validate_hardware", ["gpu1"], "mappings of hosts and record"),
        ("validate_hardware", [{"hosts": "gpu1", "record": {"name": "x"}}], "missing required"),
        ("gpucluster_monitoring", "off", "present, absent"),
        ("monitoring_address", "10.0.1.400", "IP address"),
        ("monitoring_password", "secret", "monitoring_password_hash only"),
        ("monitoring_password_hash", "secret", "a bcrypt hash"),
        ("monitoring_port", 0, "1 to 65535"),
        ("monitoring_receivers", {"mail": "admin@example.org"}, "mail (a list)"),
        ("monitoring_receivers", {"pager": "x"}, "mail (a list)"),
        ("monitoring_receivers", {"slack": "channel"}, "slack (URLs)"),
        ("monitoring_targets", ["10.0.1.400"], "IP address"),
        ("monitoring_tls_certificate", "/etc/ssl/a.crt", "monitoring_tls_key only"),
        ("munge_key", 5.5, "not shown"),
        ("nccl_enroot_path", "etc", "an absolute path"),
        ("nccl_environment", {"1A": "x"}, "environment variables"),
        ("nccl_gpus_per_bridge", 99, "0 to 16"),
        ("nccl_settings", {"NCCL_DEBUG": "a b"}, "a value has no blanks"),
        ("nccl_settings", {"DEBUG": "x"}, "no name of a variable of NCCL"),
        ("nccl_topology_path", "topo.xml", "an absolute path"),
        ("nfs_server_address", "10.0.1.400", "IP address"),
        ("health_checks", {"gpu_cout": {}}, "unknown check"),
        ("health_prolog_checks", ["gpu_cout"], "unknown check"),
        ("health_python", "python3", "an absolute path"),
        ("health_nhc_source_url", "/no/such/file", "a file that is there"),
        ("health_state_directory", "/", "not the system's"),
        ("health_nhc_timeout_seconds", 0, "1 to 3600"),
        ("health_tools", {"nvidia-smi": "/usr/bin/nvidia-smi"}, "nvidia_smi"),
        ("health_tools", {"dcgmi": "dcgmi"}, "absolute paths"),
        ("health_nhc_version", "newest", "a release"),
        ("nvidia_container_toolkit_key_checksum", "sha256:0", "64 hexadecimal digits"),
        ("nvidia_container_toolkit_version", "newest", "a version such as 1.20.1-1"),
        ("pyxis_source_url", "pyxis.tar.gz", "a file that is there"),
        ("scratch_mode", 0o755, "an octal mode in quotes"),
        ("scratch_mount_options", "noatime\nnodev", "one line"),
        ("scratch_mount_options", "noatime x", "options of mount"),
        ("slurm_batch", "0", "a number of machines"),
        ("slurm_cluster_name", "Lab 1", "lower-case"),
        ("slurm_config", {"ClusterName": "x"}, "slurm_cluster_name sets this one"),
        ("slurm_config", {"NodeName": "x"}, "the group slurm_compute"),
        ("slurm_config", {"slurmctldhost": "x"}, "slurm_controllers sets this one"),
        ("slurm_configure_options", ["; reboot"], "options such as"),
        ("slurm_failures_percent", 101, "0 to 100"),
        ("slurm_memory_headroom_percent", 100, "0 to 90"),
        ("slurm_pam_users", ["a:b"], "names of users"),
        ("slurm_private_tmp_directory", "tmp", "an absolute path"),
        ("slurm_source_url", "/no/such/archive.tar.bz2", "a file that is there"),
        ("slurm_state_directory", "", "an absolute path"),
        ("slurm_state_directory", "slurm", "an absolute path"),
        ("slurm_state_directory", "/", "not the system's"),
        ("slurm_user_uid", 0, "1 to"),
        ("slurm_version", "24.11", "three numbers"),
        ("upgrade_batch", "abc", "a number of machines"),
        ("upgrade_batch", "0%", "a number of machines"),
        ("upgrade_batch", -1, "a number of machines"),
        ("training_data", [{"url": "https://example.com/a", "name": "../jobs/a"}], "each with the name of a file"),
        ("training_data", [{"url": "https://example.com/"}], "set name if the URL ends without one"),
        ("training_user", "root", "a user other than root"),
        ("training_user", "0", "a user other than root"),
        ("training_user", "../alice", "a user other than root"),
        ("training_users", ["alice", "root"], "a user other than root"),
        ("users_default_shell", "bash", "an absolute path"),
        ("users_home_base", "home", "an absolute path"),
        ("users_home_base", "/", "not the system's"),
        ("users_home_mode", 0o711, "an octal mode in quotes"),
        ("users_home_mode", "rwx", "an octal mode in quotes"),
        ("users_ssh_hosts", ["gpu*\n  ProxyCommand evil"], "one line"),
        ("users_ssh_hosts", ["gpu* 10.*"], "host patterns"),
    ],
)
def test_a_bad_input_is_refused_by_its_name(name: str, value: t.Any, words: str) -> None:
    faults, _good = rules.judge({"gpucluster_vm_size": "lab", name: value})

    assert [text for text in faults if text.startswith(name) or f"{name}, " in text or f", {name}" in text]
    assert len(faults) == 1, faults
    assert words in faults[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("base_hosts", {"gpu1": "10.0.1.4", "gpu2": "fd00::2"}),
        ("base_memlock", 8192),
        ("base_time_servers", ["ntp.example.com", "10.0.0.1"]),
        ("base_timezone", ""),
        ("base_timezone", "Europe/Berlin"),
        ("enroot_mirror", ""),
        ("gpu_power_limit", 400),
        ("gpucluster_bastion", "admin@bastion.example.com:2222"),
        ("gpucluster_bastion", "me@outer,admin@[fd00::2]:22"),
        ("gpucluster_bastion", ""),
        ("gpucluster_networks", {"cluster": "10.0.0.0/24"}),
        ("gpucluster_proxy", {"http": "http://proxy:3128", "no_proxy": [".example.com", "10.0.0.9"]}),
        ("gpucluster_proxy", {}),
        ("nccl_settings", {"NCCL_DEBUG": None}),
        ("health_checks", {"clock": {"enabled": False}}),
        ("health_nhc_source_url", str(Path(__file__))),
        ("slurm_batch", ["10%", 5]),
        ("slurm_config", {"KillWait": 30}),
        ("slurm_source_url", "https://mirror.example.com/slurm-26.05.4.tar.bz2"),
        ("slurm_version", "26.05.0-1"),
        ("upgrade_batch", 5),
        ("upgrade_batch", "10%"),
        ("users_home_mode", "0711"),
        ("training_data", [{"url": "https://example.com/a.bin"}, {"url": "file:///a/", "name": "a.bin"}]),
        ("training_user", ""),
        ("training_users", ["alice", "carol@example.com", "rooty", "0x"]),
        ("users_ssh_hosts", ["gpu?", "10.0.0.?", "fd00::1", "!head"]),
    ],
)
def test_a_good_input_passes(name: str, value: t.Any) -> None:
    assert rules.judge({"gpucluster_vm_size": "lab", name: value}) == ([], {"gpucluster_vm_size": "lab", name: value})


@pytest.mark.parametrize(("certificate", "faults"), [("", 1), ("/etc/ssl/a.crt", 0)])
def test_a_password_for_figures_needs_tls(certificate: str, faults: int) -> None:
    """The server sends it to each exporter once a minute."""
    given = {"monitoring_password": "secret", "monitoring_password_hash": f"$2y$10${'a' * 53}"}
    tls = {"monitoring_tls_certificate": certificate, "monitoring_tls_key": certificate and "/etc/ssl/a.key"}

    found = rules.judge({**given, **tls}).faults

    assert len(found) == faults
    assert all(
        "monitoring_tls_certificate only, because the password would cross the network" in text for text in found
    )
    assert "secret" not in "".join(found)


def test_the_repository_of_a_driver_needs_a_key_that_somebody_vouches_for() -> None:
    source = {"gpucluster_vm_size": "lab", "gpu_driver_source": "nvidia"}
    (sentence,) = rules.judge(source).faults

    assert sentence.startswith("gpu_driver_repository_key_checksum: found ")
    for key in (
        {"gpu_driver_repository_key": "/etc/apt/keyrings/site.asc"},
        {"gpu_driver_repository_key_checksum": "sha256:" + "0" * 64},
    ):
        assert rules.judge({**source, **key}).faults == []


def test_all_faults_are_said_at_once() -> None:
    assert len(rules.judge({"gpu_clocks": "fast", "base_nofile": 0, "nccl_settings": {"x": 1}}).faults) == 3


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("users_acounts", "users_accounts"),
        ("slurm_databse", "slurm_database"),
        ("gpucluster_vmsize", "gpucluster_vm_size"),
        ("health_check", "health_checks"),
        ("nhc_version", "health_nhc_version"),
        ("nhc_checks", "health_checks"),
        ("nhc_vm_size_record", "health_hardware"),
        ("gpucluster_hardware", "gpucluster_vm_size_record"),
        ("scratch_vm_size", "scratch_hardware"),
        ("validate_vm_size", "validate_hardware"),
        ("validate_vm_size_record", "validate_hardware"),
        ("pinning_vm_size", "gpucluster_vm_size"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(name: str, near: str) -> None:
    (sentence,) = rules.unknown([name, "users_accounts"])

    assert sentence.startswith(f"{name}: no role reads it; did you mean {near}?")
    assert rules.unknown([name], own=[name]) == []


def test_names_of_the_site_and_of_playbooks_are_left_alone() -> None:
    assert rules.unknown(["ansible_user", "site_users", "slurm_site_contact", "gpucluster_input_host"]) == []


def test_no_rule_is_about_a_name_that_no_role_has() -> None:
    assert {*rules._RULES, *rules._RANGES} <= rules.known()


def test_each_choice_of_an_option_is_right() -> None:
    values = [
        (name, [choice] if option.get("type") == "list" else choice)
        for name, option in inputs_types.options().items()
        for choice in option.get("choices", [])
    ]

    assert ("repair_mode", "capture") in values
    faults = [fault for name, value in values for fault in rules.judge({name: value}).faults if fault.startswith(name)]
    # A choice can need another input, which the fault names.
    assert [fault for fault in faults if not fault.startswith("gpu_driver_repository_key_checksum: found ''")] == []


def test_a_machine_that_takes_no_jobs_needs_no_record() -> None:
    nothing = {"gpus": {"count": 0}, "nvme": {"count": 0}, "infiniband": {"rate_gbps": 0, "hcas": []}}

    assert rules.judge({"enroot_hardware": nothing}).faults == []
    assert rules.judge({"enroot_hardware": {"memory_mib": 1}}).faults != []


@pytest.mark.parametrize("size", ["Standard_ND128isr_NDR_GB200_v6", "Standard_ND128isr_GB300_v6"])
def test_nvlink_between_nodes_needs_a_word(size: str) -> None:
    [fault] = rules.judge({"gpucluster_vm_size": size}).faults

    assert fault.startswith("gpu_imex: found nothing (null); allowed: none (NVLink joins 18 machines")
    assert rules.judge({"gpucluster_vm_size": size, "gpu_imex": "none"}).faults == []
