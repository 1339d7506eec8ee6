# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Convert inputs for NFS into module arguments: one entry per export and per mount. Nothing here judges."""

from __future__ import annotations

import re
import typing as t

Options = t.Union[str, "list[str]", None]

# Options that exclude each other; the last one wins.
EXCLUSIVE = (
    {"hard", "soft", "softerr"},
    {"ro", "rw"},
    {"vers", "nfsvers"},
    {"atime", "noatime", "relatime"},
    {"sync", "async"},
    {"auto", "noauto"},
    {"root_squash", "no_root_squash", "all_squash"},
    {"subtree_check", "no_subtree_check"},
    {"secure", "insecure"},
    {"wdelay", "no_wdelay"},
    {"ac", "noac"},
    {"lock", "nolock"},
    {"suid", "nosuid"},
    {"dev", "nodev"},
    {"exec", "noexec"},
)
SQUASH = {"root": "root_squash", "none": "no_root_squash", "all": "all_squash"}
EXPORT_OPTIONS = ["rw", "sync", "no_subtree_check"]
# Options of every network mount for systemd: never delay the boot, mount at the first use.
NETWORK_OPTIONS = ["_netdev", "nofail", "x-systemd.automount", "x-systemd.mount-timeout=30s"]
LUSTRE_OPTIONS = ["flock", "noatime"]
# A setuid program or a device file on shared storage grants no rights.
SAFE_OPTIONS = ["nosuid", "nodev"]
_RAW_CLIENTS = re.compile(r"\S+\([^()]*\)")


def split_options(options: Options) -> list[str]:
    """Return each option of a comma-separated string or of a list of such strings."""
    texts = [options] if isinstance(options, str) else list(options or [])
    return [word.strip() for text in texts for word in str(text).split(",") if word.strip()]


def merge_options(defaults: list[str], own: Options) -> list[str]:
    """Return the defaults with the user's options merged; C(-name) removes a default."""
    merged = list(defaults)
    for word in split_options(own):
        name = word.lstrip("-").partition("=")[0]
        rivals = next((group for group in EXCLUSIVE if name in group), {name})
        merged = [have for have in merged if have.partition("=")[0] not in rivals]
        if not word.startswith("-"):
            merged.append(word)
    return merged


def flatten(value: t.Any) -> list[str]:
    """Return nested lists of names and comma-separated names as one list without duplicates."""
    if value is None:
        return []
    if isinstance(value, str):
        return split_options(value)
    return list(dict.fromkeys(name for part in value for name in flatten(part)))


def export_clients(export: t.Mapping[str, t.Any], default_clients: t.Any) -> list[str]:
    """Return the clients of one export as written, without their options."""
    if is_raw(export.get("options")):
        return [word.partition("(")[0] for word in _RAW_CLIENTS.findall(export["options"])]
    return flatten(export.get("clients")) or flatten(default_clients)


def is_raw(options: t.Any) -> bool:
    """Return whether options has the older form that includes the clients: C(*(rw,sync) 10.0.0.0/8(ro))."""
    return isinstance(options, str) and "(" in options


def trusts_everybody(export: t.Mapping[str, t.Any], default_clients: t.Any) -> bool:
    """Return whether root of any machine is root on an export."""
    if is_raw(export.get("options")):
        found = _RAW_CLIENTS.findall(export["options"])
        return any(word.startswith("*(") and "no_root_squash" in word.split("(")[1] for word in found)
    entry = export_entry({**export, "path": ""}, default_clients)
    return any(client.startswith("*(") and "no_root_squash" in client for client in entry["clients"])


def export_entry(export: t.Mapping[str, t.Any], default_clients: t.Any) -> dict[str, t.Any]:
    """Return one export as the role nfs writes it."""
    if is_raw(export.get("options")):
        clients = _RAW_CLIENTS.findall(export["options"])
    else:
        squash = SQUASH.get(str(export.get("squash", "root")), "root_squash")
        options = ",".join(merge_options([*EXPORT_OPTIONS, squash], export.get("options")))
        clients = [f"{client}({options})" for client in export_clients(export, default_clients)]
    entry = {"path": export["path"], "clients": clients}
    # Without owner, group or mode, an existing directory stays as it is.
    return {**entry, **{key: str(export[key]) for key in ("owner", "group", "mode") if export.get(key) is not None}}


def mount_path(mount: t.Mapping[str, t.Any]) -> str:
    """Return the directory of this machine that a mount covers."""
    return str(mount.get("mountpoint") or mount.get("path") or "")


def mount_source(mount: t.Mapping[str, t.Any], default_server: str) -> str:
    """Return the source of a mount, C(server:/path). With C(mountpoint), the key C(path) is the path on the server."""
    if mount.get("source"):
        return str(mount["source"])
    server = mount.get("server") or default_server
    directory = mount.get("path") if mount.get("mountpoint") else mount.get("export") or mount.get("path")
    if not server or not directory:
        return ""
    # An IPv6 address needs brackets before the colon of the path.
    return f"[{server}]:{directory}" if str(server).count(":") > 1 else f"{server}:{directory}"


def mount_type(mount: t.Mapping[str, t.Any]) -> str:
    """Return the file system type: nfs unless the mount says otherwise."""
    return str(mount.get("type") or "nfs")


def mount_options(mount: t.Mapping[str, t.Any], default_options: Options) -> list[str]:
    """Return every option of a mount in its order in fstab."""
    own = default_options if mount_type(mount).startswith("nfs") else LUSTRE_OPTIONS
    return merge_options([*merge_options(SAFE_OPTIONS, own), *NETWORK_OPTIONS], mount.get("options"))


def mount_entry(mount: t.Mapping[str, t.Any], default_server: str, default_options: Options) -> dict[str, t.Any]:
    """Return one mount as the module nfs_mounts accepts it."""
    return {
        "path": mount_path(mount),
        "source": mount_source(mount, default_server),
        "type": mount_type(mount),
        "options": mount_options(mount, default_options),
        "hide": str(mount.get("hide", False)).lower() in ("true", "yes", "on", "1"),
    }
