"""Start the server in a process of its own, and ansible-inventory against it; needs no import of the collection."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import ssl
import subprocess
import sys
import time
import typing as t
import urllib.request
from pathlib import Path

# As tests/patience.py, which this package cannot import: it has two names.
_PATIENCE = 1200 * int(os.environ.get("GPUCLUSTER_TEST_PATIENCE") or 1)

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
TENANT = "22222222-0000-0000-0000-000000000000"
SUBSCRIPTION = "11111111-0000-0000-0000-000000000000"
SECRET = "sEcReT-of-the-application"


class Run(t.NamedTuple):
    """One run of ansible-inventory."""

    rc: int
    out: str
    err: str
    seconds: float
    peak_mb: float
    cpu: float
    waited: float

    @property
    def listed(self) -> dict[str, t.Any]:
        """Return the inventory; texts that are not trusted come wrapped and are unwrapped here."""
        return t.cast("dict[str, t.Any]", _unwrapped(json.loads(self.out[self.out.index("{\n") :])))

    @property
    def hosts(self) -> dict[str, dict[str, t.Any]]:
        """Return the variables of every host."""
        return t.cast("dict[str, dict[str, t.Any]]", self.listed["_meta"]["hostvars"])


def _unwrapped(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return (
            value["__ansible_unsafe"]
            if set(value) == {"__ansible_unsafe"}
            else {k: _unwrapped(v) for k, v in value.items()}
        )
    return [_unwrapped(one) for one in value] if isinstance(value, list) else value


def certificate(folder: Path) -> Path:
    """Write a self-signed certificate and its key for 127.0.0.1."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    path.chmod(0o600)
    return path


class Azure:
    """The server, from the outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.certificate = certificate(folder)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "azure_server", "--certificate", str(self.certificate)],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        self.url = f"https://127.0.0.1:{int(self._process.stdout.readline())}"
        self._context = ssl.create_default_context(cafile=str(self.certificate))

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)  # work: it is killed then
        except subprocess.TimeoutExpired:  # a busy machine
            self._process.kill()
            self._process.wait()

    def control(self, **spec: t.Any) -> None:
        """Replace the subscriptions and the faults."""
        self._call("/_control", json.dumps(spec).encode())

    def setting(self, **setting: t.Any) -> None:
        """Set the delay, and begin a new log."""
        self._call("/_setting", json.dumps(setting).encode())

    def log(self) -> list[str]:
        """Return what was asked since control()."""
        return t.cast("list[str]", json.loads(self._call("/_log")))

    def _call(self, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.url + path, data=body)
        with urllib.request.urlopen(request, context=self._context) as answer:
            return t.cast("bytes", answer.read())

    def options(self, **more: t.Any) -> dict[str, t.Any]:
        """Return the text of an inventory file as a mapping: an application that signs in at this server."""
        return {
            "plugin": "hpcai.gpucluster.azure_vms",
            "cloud_environment": self.url,
            "adfs_authority_url": self.url,
            "disable_instance_discovery": True,
            "tenant": TENANT,
            "client_id": "app",
            "secret": SECRET,
            "subscription_id": SUBSCRIPTION,
            **more,
        }

    def inventory(
        self, options: dict[str, t.Any] | Path, *arguments: str, environment: dict[str, str] | None = None
    ) -> Run:
        """Run C(ansible-inventory --list) in a bare environment and measure it; the options or a path to read."""
        file = self.folder / "cluster.azure_vms.yml"
        if isinstance(options, Path):
            file = options
        else:
            file.write_text(json.dumps(options), encoding="utf-8")
        return self.run("ansible-inventory", "-i", str(file), "--list", *arguments, environment=environment)

    def signed_in(self) -> dict[str, str]:
        """Return the environment of somebody who signs in at this server."""
        return {
            "AZURE_CLOUD_ENVIRONMENT": self.url,
            "AZURE_ADFS_AUTHORITY_URL": self.url,
            "AZURE_DISABLE_INSTANCE_DISCOVERY": "true",
            "AZURE_TENANT_ID": TENANT,
            "AZURE_CLIENT_ID": "app",
            "AZURE_CLIENT_SECRET": SECRET,
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
        }

    def environment(self) -> dict[str, str]:
        """Return the bare environment in which the tools of Ansible run."""
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
        return {
            **kept,
            "HOME": str(self.folder),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "tmp"),
            "REQUESTS_CA_BUNDLE": str(self.certificate),
        }

    def run(self, tool: str, *arguments: str, environment: dict[str, str] | None = None) -> Run:
        """Run a tool of Ansible in a bare environment and measure it."""
        env = {**self.environment(), **(environment or {})}
        command = [str(Path(sys.executable).with_name(tool)), *arguments]
        started = time.monotonic()
        measured = self.folder / "measured"
        done = subprocess.run(
            [sys.executable, "-c", _MEASURE, str(measured), *command],
            env=env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
        seconds = time.monotonic() - started
        if measured.exists():
            seconds, kilobytes, cpu, waited = json.loads(measured.read_text())
        else:
            kilobytes = cpu = waited = 0
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stderr)
        return Run(done.returncode, done.stdout, said, seconds, kilobytes / 1024, cpu, waited)


# A small parent of its own, so that the peak memory is that of this one child. The second number of schedstat is the
# time that the main thread was ready and the machine was busy with something else.
_MEASURE = """
import json, resource, subprocess, sys, time
start = time.monotonic()
child = subprocess.Popen(sys.argv[2:])
waited = 0
while child.poll() is None:
    try:
        with open(f"/proc/{child.pid}/schedstat") as file:
            waited = max(waited, int(file.read().split()[1]))
    except (OSError, IndexError, ValueError):
        pass
    time.sleep(0.02)  # work: until the child has ended
seconds = time.monotonic() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump([seconds, used.ru_maxrss, used.ru_utime + used.ru_stime, waited / 1e9], file)
sys.exit(child.returncode)
"""
