# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Advice for each check that can fail."""

from __future__ import annotations

_SLOW = [
    "Is the peer memory module loaded? 'lsmod | grep -e nvidia_peermem -e nv_peer_mem'; if not, load it.",
    "Run it again with NCCL_DEBUG=INFO and look for 'GDRDMA' (such as NET/IB/0/GDRDMA). If it is missing, GPUDirect is"
    " not used: driver, peer memory module or topology file. If it is there and the figure is low: cable or switch.",
    "Compare link rate and error counters of all ports on the named nodes: 'ibstat', 'perfquery'.",
    "Compare the clocks: 'nvidia-smi -q -d CLOCK,PERFORMANCE'; a throttled or unlocked GPU holds all others back.",
]
_HUNG = [
    "Look for nodes that are down or drained: 'sinfo -R'.",
    "Look at the nodes' logs: 'journalctl -u slurmd -e'.",
    "Cancel what still runs ('scancel'). Once the cause is gone: 'scontrol update nodename=NODE state=resume'.",
]

ADVICE: dict[str, list[str]] = {
    "preflight.answers": [
        "Is the machine up, and does its address in the inventory still hold? Try: 'ansible NODE -m ping -vvv'."
    ],
    "preflight.slurm_state": [
        "'sinfo -R' shows who drained it and why; 'journalctl -u slurmd -e' on the node why slurmd does not answer.",
        "When the cause is gone: 'scontrol update nodename=NODE state=resume'.",
    ],
    "preflight.version": [
        "Run site.yml with '--limit NODE' (versions of our roles), or bring driver and kernel of the image in line."
    ],
    "preflight.clock": ["Run the play of the role base on the node; munge refuses messages that are minutes off."],
    "preflight.own_name": [
        "A program such as PyTorch's Gloo tells the other nodes this address.",
        "Remove the node's name from the lines of 127.0.1.1 in its /etc/hosts, or set base_hosts and run site.yml.",
    ],
    "preflight.nccl_conf": [
        "Compare /etc/nccl.conf with that of an equal node; a topology file of another machine makes jobs slow.",
        "Remove what was set by hand, or set nccl_settings for all nodes, and run site.yml.",
    ],
    "preflight.mounts": ["'mount PATH' on the node says why it is missing; if it hangs, is the NFS server up?"],
    "preflight.users": ["Run users.yml: the number of a user must be the same on all nodes."],
    "scheduler.controllers": [
        "Start slurmctld there; 'journalctl -u slurmctld -e' says why it ended. Until then no other takes over.",
    ],
    "scheduler.job": _HUNG,
    "scheduler.mpi": [
        "Does Slurm know PMIx? 'srun --mpi=list' must show pmix on the login node and on the nodes.",
        "Is the same MPI on all nodes? Do the nodes know each other's names, and is traffic between them allowed?",
        *_HUNG,
    ],
    "scheduler.accounting": [
        "Is slurmdbd up? 'sacctmgr show cluster' must list the cluster; 'journalctl -u slurmdbd -e' says more."
    ],
    "scheduler.container": [
        "Is pyxis loaded? 'srun --help' must show --container-image.",
        "Can the node fetch the image, and do enroot's directories have room? 'enroot import' on the node says more.",
    ],
    "node.check": ["Run 'gpucluster-check' on the node: it names each fault and what to do."],
    "node.dcgm": [
        "Run 'dcgmi diag -r 3' on the node with nothing else on it.",
        "Look for Xid errors ('dmesg') and remapped rows ('nvidia-smi -q -d ROW_REMAPPER'); ask for a repair.",
    ],
    "node.host_to_device": [
        "Compare PCIe width and generation: 'nvidia-smi -q -d PCIE' or 'lspci -vv' (LnkSta against LnkCap).",
        "Was the test bound to the GPU's NUMA node, and was the node free? Then reboot it; if it stays, replace it.",
    ],
    "nccl.node": [
        "Is NVLink complete? 'nvidia-smi nvlink --status', 'nvidia-smi topo -m'; is nvidia-fabricmanager running?",
        "Run it again with NCCL_DEBUG=INFO: 'via P2P' means NVLink or PCIe, 'via SHM' that all goes through the host's"
        " memory. Then look for NCCL_P2P_DISABLE and NCCL_P2P_LEVEL in /etc/nccl.conf and in the environment.",
        *_SLOW[3:],
    ],
    "nccl.pair": _SLOW,
    "nccl.all": [*_SLOW, *_HUNG],
    "nccl.limits": [
        "Compare the figures with those of the vendor or of a cluster that is known to be good. Then set"
        " 'validate_thresholds', or 'thresholds' in the hardware record, so that the next run is judged by them."
    ],
    "isolation.node": ["Drain it: 'scontrol update nodename=NODE state=drain reason=slow'. Then:", *_SLOW],
    "isolation.link": [
        "Both nodes are well with others: look at the path between them (leaf and spine ports, routing).",
        *_SLOW[2:3],
    ],
    "isolation.shared": [
        "No node is to blame: look at oversubscription and routing of the fabric, and at jobs of others meanwhile."
    ],
    "stage": _HUNG,
}
ADVICE["node.device_to_host"] = ADVICE["node.host_to_device"]
ADVICE["node.part"] = ADVICE["nccl.part"] = ADVICE["preflight.slurm_state"]


def advice(check: str) -> list[str]:
    """Return the advice for a check: the entry of its name, or of the part of its name before a dot."""
    name = check
    while name not in ADVICE and "." in name:
        name = name.rpartition(".")[0]
    return ADVICE.get(name, [])
