# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find faults in the inputs for enroot and images. Reads files of the control node only."""

from __future__ import annotations

import difflib
import re
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import credentials
from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import image as images
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import release_packages as release

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Settings = Mapping[str, t.Any]

# Keys of enroot 4. Other keys of the same form are accepted for newer versions, unless they look like one of these.
# fmt: off
KEYS = (
    "ENROOT_LIBRARY_PATH", "ENROOT_SYSCONF_PATH", "ENROOT_RUNTIME_PATH", "ENROOT_CONFIG_PATH",
    "ENROOT_CACHE_PATH", "ENROOT_DATA_PATH", "ENROOT_TEMP_PATH", "ENROOT_GZIP_PROGRAM", "ENROOT_ZSTD_OPTIONS",
    "ENROOT_SQUASH_OPTIONS", "ENROOT_ROOTFS_WRITABLE", "ENROOT_NATIVE_OVERLAYFS", "ENROOT_REMAP_ROOT",
    "ENROOT_UNSHARE_NET", "ENROOT_UNSHARE_PID", "ENROOT_UNSHARE_IPC", "ENROOT_UNSHARE_UTS",
    "ENROOT_MAX_PROCESSORS", "ENROOT_MAX_CONNECTIONS", "ENROOT_CONNECT_TIMEOUT", "ENROOT_TRANSFER_TIMEOUT",
    "ENROOT_TRANSFER_RETRIES", "ENROOT_LOGIN_SHELL", "ENROOT_ALLOW_SUPERUSER", "ENROOT_ALLOW_HTTP",
    "ENROOT_BUNDLE_ALL", "ENROOT_BUNDLE_CHECKSUM", "ENROOT_MOUNT_HOME", "ENROOT_RESTRICT_DEV",
    "ENROOT_FORCE_OVERRIDE",
)
# fmt: on
HOOKS = ("50-mig-config.sh", "50-sharp.sh", "50-slurm-pmi.sh", "50-slurm-pytorch.sh")
# fmt: off
OWN_HOOKS = (
    "10-aptfix.sh", "10-cgroups.sh", "10-devices.sh", "10-home.sh", "10-localtime.sh", "10-shadow.sh", "98-nvidia.sh",
    "99-mellanox.sh",
)
# fmt: on
_KEY = re.compile(r"ENROOT_[A-Z_]+|(MELLANOX|NVIDIA)_[A-Z0-9_]+|SSL_CERT_(DIR|FILE)|(all|no|http|https)_proxy")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)+(-[0-9]+)?")
_PATHS = ("enroot_scratch_path", "enroot_images_path", "enroot_images_shared_path", "enroot_packages_directory")
_IMAGE_KEYS = ("image", "name", "size_gib", "state")


def problems(settings: Settings) -> list[str]:
    """Return one sentence per fault; the keys are names of the role's variables, and any may be missing."""
    users = settings.get("enroot_users") or []
    return [
        *_release(settings),
        *_config(settings.get("enroot_config") or {}),
        *_hooks("enroot_hooks", settings, HOOKS),
        *_hooks("enroot_hooks_disabled", settings, OWN_HOOKS),
        *_paths(settings),
        *credentials.problems(settings.get("enroot_credentials") or [], users),
        *_images(settings),
    ]


def _release(settings: Settings) -> Iterator[str]:
    version = settings.get("enroot_version")
    if version is None:
        return
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        yield f"enroot_version is {version!r}; it has to be a release in quotes, such as '4.2.1'"
        return
    checksums = settings.get("enroot_checksums") or {}
    for file, checksum in checksums.items():
        fault = release.checksum_problem(str(checksum))
        if fault:
            yield f"enroot_checksums: {file}: {fault}"
    full = version if "-" in version else f"{version}-1"
    yield from _files(settings.get("enroot_packages_directory"), _packages(settings), full)
    for name in _packages(settings) if "enroot_checksums" in settings else []:
        if not any(file.startswith(f"{name}_{full}_") for file in checksums):
            yield (
                f"no checksum of {name} {full} is known; add {name}_{full}_amd64.deb (or _arm64) with its sha256:..."
                " to enroot_checksums, or take a version that is known"
            )


def _packages(settings: Settings) -> list[str]:
    name = "enroot-hardened" if settings.get("enroot_flavour") == "hardened" else "enroot"
    return [name, f"{name}+caps"]


def _files(directory: t.Any, packages: list[str], version: str) -> Iterator[str]:
    """Refuse a directory of the control node that lacks a package."""
    missing = [name for name in packages if directory and not any(Path(directory).glob(f"{name}_{version}_*.deb"))]
    if missing:
        files = " and ".join(f"{name}_{version}_amd64.deb" for name in missing)
        yield f"enroot_packages_directory is {directory}; it has to hold {files} (or _arm64.deb)"


def _config(config: Settings) -> Iterator[str]:
    for key, value in config.items():
        close = difflib.get_close_matches(str(key), KEYS, 1, 0.85)
        if not _KEY.fullmatch(str(key)) or (close and close[0] != key):
            hint = f"; did you mean {close[0]}?" if close else ", such as ENROOT_MOUNT_HOME or NVIDIA_VISIBLE_DEVICES"
            yield f"enroot_config: {key} is not a setting of enroot{hint}"
        elif isinstance(value, (dict, list)):
            yield f"enroot_config: {key} must be a string, a number or a boolean"
        elif "\n" in str(value):
            yield f"enroot_config: {key} holds a line break"


def _hooks(name: str, settings: Settings, known: tuple[str, ...]) -> Iterator[str]:
    for hook in settings.get(name) or []:
        if hook not in known:
            yield f"{name}: {hook!r} is unknown; known: {', '.join(known)}"


def _paths(settings: Settings) -> Iterator[str]:
    for name in _PATHS:
        path = settings.get(name) or ""
        if path and not re.fullmatch(r"/[A-Za-z0-9._/+@:-]*", str(path)):
            yield f"{name} is {path!r}; it has to be an absolute path of letters, digits and ._/+@:-"


def _images(settings: Settings) -> Iterator[str]:
    wanted = settings.get("enroot_images") or []
    seen: dict[str, int] = {}
    for index, one in enumerate(wanted):
        where = f"enroot_images[{index}]"
        try:
            name = container_image(one)["name"]
        except images.ImageError as exc:
            yield f"{where}: {exc}"
            continue
        if name in seen:
            yield f"{where}: {name}.sqsh is the file of enroot_images[{seen[name]}] already; give it another name"
        seen.setdefault(name, index)
    if wanted and not settings.get("enroot_images_shared_path"):
        yield "enroot_images_shared_path is empty; set it to a directory that all nodes share, such as /shared/images"


def container_image(one: t.Any) -> dict[str, t.Any]:
    """Return one element of enroot_images with all its keys, or raise ImageError."""
    entry = {"image": one} if isinstance(one, str) else one
    if not isinstance(entry, dict) or "image" not in entry:
        raise images.ImageError(f"{one!r} is neither the name of an image nor a mapping with image")
    unknown = sorted(set(entry) - set(_IMAGE_KEYS))
    if unknown:
        raise images.ImageError(f"{', '.join(unknown)} is unknown; known: {', '.join(_IMAGE_KEYS)}")
    parsed = images.parse(entry["image"])
    name = entry.get("name") or parsed.file
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+-]*", str(name)):
        raise images.ImageError(f"name is {name!r}; it has to be a file name of letters, digits and ._+-")
    if entry.get("state", "present") not in ("present", "absent"):
        raise images.ImageError(f"state is {entry['state']!r}; it has to be present or absent")
    size = entry.get("size_gib", 0)
    if isinstance(size, bool) or not isinstance(size, (int, float)) or size < 0:
        raise images.ImageError(f"size_gib is {size!r}; it has to be a number of GiB")
    return {
        "image": parsed.uri,
        "name": name,
        "state": entry.get("state", "present"),
        "size_bytes": int(size * (1 << 30)),
    }
