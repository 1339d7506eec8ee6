# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Sign in to Azure with the options of a module, and open a client that can read and write."""

from __future__ import annotations

import logging
import os
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import auth, client, errors, settings
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline, Open, Pool
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.writer import Writer

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Arguments = Mapping[str, t.Any]

# The environment variables of an option in the order in which they are read, as in the inventory azure_vms.
ENVIRONMENT = {
    "auth_source": ("ANSIBLE_AZURE_AUTH_SOURCE",),
    "tenant": ("AZURE_TENANT", "AZURE_TENANT_ID"),
    "client_id": ("AZURE_CLIENT_ID",),
    "secret": ("AZURE_SECRET", "AZURE_CLIENT_SECRET"),
    "x509_certificate_path": ("AZURE_X509_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PATH"),
    "oidc_token": ("AZURE_FEDERATED_TOKEN",),
    "oidc_token_file_path": ("AZURE_FEDERATED_TOKEN_FILE",),
    "profile": ("AZURE_PROFILE",),
    "cloud_environment": ("AZURE_CLOUD_ENVIRONMENT",),
    "adfs_authority_url": ("AZURE_ADFS_AUTHORITY_URL",),
    "cert_validation_mode": ("AZURE_CERT_VALIDATION",),
    "disable_instance_discovery": ("AZURE_DISABLE_INSTANCE_DISCOVERY",),
    "subscription_id": ("AZURE_SUBSCRIPTION_ID",),
}
_TRUE = ("1", "true", "yes", "on", "y", "t")
_GRACE = 10.0  # seconds after the deadline, for a request that ends by itself


class Session(t.NamedTuple):
    """A signed-in caller: what reads and writes, and what counts."""

    client: client.Client
    writer: Writer
    subscription: str
    counter: t.Any


def argument_spec() -> dict[str, t.Any]:
    """Return the options of a sign-in for validate_argument_spec, without defaults: the environment comes first."""
    spec: dict[str, t.Any] = {name: {"type": "str"} for name in ENVIRONMENT}
    spec["auth_source"]["choices"] = ["auto", "env", "credential_file", "cli", "msi"]
    spec["cert_validation_mode"]["choices"] = ["validate", "ignore"]
    spec["disable_instance_discovery"] = {"type": "bool"}
    for name in ("secret", "oidc_token"):
        spec[name]["no_log"] = True
    for name in ("x509_certificate_path", "oidc_token_file_path"):
        spec[name]["type"] = "path"
    return {
        **spec,
        "timeout": {"type": "int", "default": 3600},
        "request_timeout": {"type": "int", "default": 60},
        "retries": {"type": "int", "default": 8},
    }


def refuse_empty(arguments: Arguments, names: t.Iterable[str]) -> None:
    """Raise ConfigError for the first name without a value, such as that of a template which found nothing."""
    for name in names:
        if not str(arguments[name] or "").strip():
            raise settings.ConfigError(f"{name} is empty")


def identity(arguments: Arguments, environ: Mapping[str, str]) -> auth.Identity:
    """Return who signs in: options, then environment variables, then the profile of the Azure CLI."""
    get = _Reader(arguments, environ)
    found = auth.Identity(
        source=get("auth_source") or "auto",
        tenant=get("tenant"),
        client_id=get("client_id"),
        secret=get("secret"),
        certificate=get("x509_certificate_path"),
        oidc_token=get("oidc_token"),
        oidc_token_file=get("oidc_token_file_path"),
        profile=get("profile"),
        subscription_id=get("subscription_id"),
        adfs_authority_url=get("adfs_authority_url"),
        instance_discovery=get("disable_instance_discovery").lower() not in _TRUE,
        verify=(get("cert_validation_mode") or "validate") == "validate",
    )
    return auth.complete(found, environ)


class _Reader:
    """Reads an option, or the first of its environment variables that is set."""

    def __init__(self, arguments: Arguments, environ: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environ = environ

    def __call__(self, name: str) -> str:
        given = self._arguments.get(name)
        if given is not None and given != "":
            return str(given)
        return next((self._environ[one] for one in ENVIRONMENT[name] if self._environ.get(one)), "")


def run(
    arguments: Arguments,
    work: Callable[[Session], t.Any],
    tell: Callable[[str], None] | None = None,
    environ: Mapping[str, str] | None = None,
) -> t.Any:
    """
    Sign in, call work with the session, and return its result within the timeout of the arguments.

    Every exception is an AzureInventoryError whose message contains no secret; another one is a fault of the program.
    """
    environ = os.environ if environ is None else environ
    redact = errors.Redactor()
    under_way = Open()
    deadline = Deadline(float(arguments["timeout"]))
    pool = Pool(1)
    try:
        task = pool.submit(_signed_in, arguments, work, environ, deadline, under_way, redact, tell)
        return task.result(timeout=deadline.seconds + _GRACE)
    except TimeoutError:
        raise errors.SlowError(f"{under_way.slowest('the operation')} (timeout is {deadline.seconds:.0f} s)") from None
    except settings.AzureInventoryError as exc:
        exc.args = tuple(redact(str(one)) for one in exc.args)
        raise
    finally:
        pool.close()


def _signed_in(
    arguments: Arguments,
    work: Callable[[Session], t.Any],
    environ: Mapping[str, str],
    deadline: Deadline,
    under_way: Open,
    redact: errors.Redactor,
    tell: Callable[[str], None] | None,
) -> t.Any:
    _silence_libraries()
    who = identity(arguments, environ)
    for secret in (who.secret, who.oidc_token):
        redact.add(secret)
    if not settings.is_guid(who.subscription_id):
        found = f"found {who.subscription_id!r}" if who.subscription_id else "it is empty"
        raise settings.ConfigError(f"subscription_id must be the ID of a subscription; {found}")
    limits = _limits(arguments, environ)
    cloud = client.find_cloud(limits.cloud, client.fetch_metadata(limits, who.verify, under_way))
    patience = auth.Patience(limits.timeout, limits.retries)
    credential = auth.Credential(lambda: auth.make_credential(who, cloud, patience), redact.add)
    sender = client.Sender(credential, cloud, limits, deadline, under_way, redact, who.verify)
    sender.sign_in()
    try:
        connected = client.Client(sender, cloud.resource_manager, sender.renew, redact)
        return work(Session(connected, Writer(connected, deadline, tell=tell), who.subscription_id, sender.counter))
    finally:
        sender.close()


def _limits(arguments: Arguments, environ: Mapping[str, str]) -> settings.Settings:
    """Return the limits of a single request."""
    return settings.Settings(
        cloud=_Reader(arguments, environ)("cloud_environment") or "AzureCloud",
        timeout=int(arguments["request_timeout"]),
        retries=int(arguments["retries"]),
        deadline=int(arguments["timeout"]),
    )


def _silence_libraries() -> None:
    """Keep the logs of the libraries, which may quote a request, off the terminal."""
    for name in ("azure", "msal", "urllib3"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
