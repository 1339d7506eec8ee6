# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What runs on a node in repair, and what follows from its output."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
import typing as t
import zlib

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Report = Mapping[str, t.Any]

# Each program has a time limit, because a faulty GPU hangs nvidia-smi. Every output is kept, also that of a failure.
CAPTURE = r"""
set -u
where=$(mktemp -d) || exit 1
trap 'rm -rf "$where"' EXIT
keep() {
  name=$1; shift
  timeout --kill-after=5 "${LIMIT:-30}" "$@" > "$where/$name" 2>&1 || echo "exit status $?" >> "$where/$name"
}
keep nvidia-smi-q.txt nvidia-smi -q
keep gpu-serials.csv nvidia-smi --query-gpu=index,pci.bus_id,serial,uuid,name --format=csv
keep nvlink.txt nvidia-smi nvlink -s
keep dmesg.txt dmesg --ctime
grep -h 'Xid' "$where/dmesg.txt" > "$where/xids.txt" || true
keep ibstat.txt ibstat
LIMIT=60 keep health.json gpucluster-check --json --set fast
cp /run/gpucluster-check/state.json "$where/health-state.json" 2> /dev/null || true
keep boot.txt uptime --since
keep machine.txt sh -c 'for name in product_serial board_serial product_uuid product_name; do
  printf "%s %s\n" "$name" "$(cat /sys/class/dmi/id/$name 2> /dev/null)"; done'
cp /var/lib/hyperv/.kvp_pool_3 "$where/hyperv-kvp-pool-3" 2> /dev/null || true
: > "$where/packed" # before, because a new name is a change of the directory, which tar notices
tar --create --gzip --directory="$where" --exclude=./packed --file="$where/packed" . && base64 "$where/packed"
"""

# The services that use GPUs are stopped for the reset, and only those that ran are started again.
GPU_RESET = r"""
set -u
busy=
for unit in nvidia-dcgm nvidia-persistenced; do
  ! systemctl is-active --quiet "$unit" || { busy="$unit $busy"; timeout 60 systemctl stop "$unit"; }
done
timeout --kill-after=5 240 nvidia-smi --gpu-reset
code=$?
for unit in $busy; do timeout 60 systemctl start "$unit"; done
exit $code
"""

# Both nodes send the other one 16 MiB and compare the digest. Each first proves to the other that it knows the token of
# this step. The first node takes connections from the address of its partner only.
PAIR = r"""import hashlib, hmac, os, socket, sys, time
server, address, partner, port, size = *sys.argv[1:4], int(sys.argv[4]), 1 << 24
token = bytes.fromhex(os.environ.pop("GPUCLUSTER_PAIR_TOKEN"))
mine = os.environ["SLURMD_NODENAME"] == server
end = time.monotonic() + 30
def take(link, count, until):
    found = b""
    while len(found) < count:
        link.settimeout(max(0.01, until - time.monotonic()))
        part = link.recv(count - len(found))
        if not part or time.monotonic() > until:
            raise OSError("no greeting")
        found += part
    return found
def proof(side, first, second):
    return hmac.new(token, side + first + second, "sha256").digest()
def known(link):
    until = min(end, time.monotonic() + 5)
    me, you = (b"server", b"client") if mine else (b"client", b"server")
    own = os.urandom(32)
    try:
        link.sendall(own)
        other = take(link, 32, until)
        link.sendall(proof(me, own, other))
        return hmac.compare_digest(take(link, 32, until), proof(you, other, own))
    except OSError:
        return False
def accept():
    allowed = {found[4][0] for found in socket.getaddrinfo(partner, None, socket.AF_INET)}
    refused = set()
    with socket.create_server(("", port)) as listener:
        while time.monotonic() < end:
            listener.settimeout(max(0.01, end - time.monotonic()))
            try:
                link, (host, _port) = listener.accept()
            except OSError:
                break
            if host in allowed and known(link):
                return link
            link.close()
            refused.add(host)
    sys.exit("no connection from %s (%s)%s" % (
        partner, ", ".join(sorted(allowed)), "; refused " + ", ".join(sorted(refused)) if refused else ""))
def connect():
    while time.monotonic() < end:
        try:
            link = socket.create_connection((address, port), 5)
            if known(link):
                return link
            link.close()
        except OSError:
            pass
        time.sleep(0.2)
    sys.exit("no connection to " + address)
link = accept() if mine else connect()
link.settimeout(30)
data = os.urandom(1 << 20) * (size >> 20)
stream = link.makefile("rb")
def send():
    link.sendall(hashlib.sha256(data).digest() + data)
def receive():
    digest, found = stream.read(32), stream.read(size)
    if len(found) != size or hashlib.sha256(found).digest() != digest:
        sys.exit("the data that arrived is not the data that was sent")
start = time.monotonic()
(send(), receive()) if mine else (receive(), send())
print("exchanged 16 MiB in both directions in %.2f s" % (time.monotonic() - start))
"""
PAIR_TOKEN = "GPUCLUSTER_PAIR_TOKEN"  # noqa: S105 - the name of a variable of the environment
PAIR_PORTS = range(61000, 63000)  # above the ports that the kernel gives to programs
_KEY, _VALUE = 512, 2048  # bytes of a record of Hyper-V's key-value pool
_MOST = 64 << 20
_CHECK_SECONDS = 7200.0
_SAMPLES = 8  # the checks are repeated while one is suspect or unknown
_SAMPLE_PAUSE = 6.0


class OutputError(Exception):
    """What a node printed is not usable."""


class Captured(t.NamedTuple):
    """The archive of a capture, and the name of the physical host if a hypervisor gives it."""

    archive: bytes
    physical_host: str


def collect(printed: str, more: Mapping[str, str]) -> Captured:
    """Return one archive of what a node printed and what the controller knows; an empty output has no files."""
    members = _members(printed) if printed.strip() else {}
    members.update({f"controller/{name}": text.encode() for name, text in more.items()})
    host = key_values(members.get("hyperv-kvp-pool-3", b"")).get("PhysicalHostNameFullyQualified", "")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in sorted(members.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return Captured(stream.getvalue(), host)


def _members(printed: str) -> dict[str, bytes]:
    try:
        packed = base64.b64decode(printed, validate=False)
        # Unpacked first: tarfile would take as much memory as the archive says.
        content = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(_MOST + 1)
        if len(content) > _MOST:
            raise OutputError(f"the archive of the node has more than {_MOST} bytes")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            files = [entry for entry in archive if entry.isfile() and ".." not in entry.name.split("/")]
            return {
                entry.name.lstrip("./"): t.cast("t.IO[bytes]", archive.extractfile(entry)).read() for entry in files
            }
    except (ValueError, tarfile.TarError, zlib.error, EOFError, OSError) as exc:
        raise OutputError(f"the archive of the node cannot be read: {exc}") from exc


def key_values(pool: bytes) -> dict[str, str]:
    """Return the entries of a pool of Hyper-V's key-value exchange, which have a fixed size."""
    size = _KEY + _VALUE
    records = [pool[start : start + size] for start in range(0, len(pool) - size + 1, size)]
    return {_text(record[:_KEY]): _text(record[_KEY:]) for record in records}


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")


def report(printed: str) -> Report:
    """Return the report of gpucluster-check; raise OutputError if there is none."""
    for line in printed.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("checks"), list) and all(map(_is_check, found["checks"])):
            return found
    raise OutputError(f"gpucluster-check printed no report: {printed.strip()[:120]!r}")


def _is_check(found: t.Any) -> bool:
    """Return whether something that a node printed has what every check has."""
    return isinstance(found, dict) and all(isinstance(found.get(name), str) for name in ("check", "status"))


def sampled(
    run: Callable[[Sequence[str], float], tuple[int, str, str]], pause: Callable[[float], None], what: Sequence[str]
) -> Report:
    """Return the report of the checks on a node; I(run) runs a program there."""
    for _sample in range(_SAMPLES):
        code, out, err = run(["gpucluster-check", "--json", *what], _CHECK_SECONDS)
        found = report(out or f"exit status {code}: {err}")
        if not doubtful(found):
            break
        pause(_SAMPLE_PAUSE)
    return found


def doubtful(found: Report) -> bool:
    """Return whether a further sample can decide: a check is suspect or unknown, and none is unhealthy."""
    said = {check["status"] for check in found["checks"]}
    return bool(said & {"suspect", "unknown"}) and "unhealthy" not in said


def judge(found: Report, named: Sequence[str]) -> tuple[bool, str]:
    """
    Return whether a node is healthy, and why not.

    Every check that the drain named must be healthy. No other may be anything but healthy or not applicable: a check
    that did not run proves nothing.
    """
    status = {str(check["check"]): str(check["status"]) for check in found["checks"]}
    bad = {name: said for name, said in status.items() if said not in ("healthy", "not applicable")}
    bad.update({name: status.get(name, "not run") for name in named if status.get(name) != "healthy"})
    if not status or bad:
        return False, ", ".join(f"{name} is {said}" for name, said in bad.items()) or "no check ran"
    return True, f"{sum(said == 'healthy' for said in status.values())} checks are healthy"
