# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find why a registry refused an image, which enroot does not report. Requests are injected; errors omit passwords."""

from __future__ import annotations

import base64
import json
import re
import typing as t
from urllib.parse import urlencode, urlsplit

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot.credentials import Login
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot.image import Reference

    Ask = Callable[[str, str, Mapping[str, str]], "Answer"]

_KINDS = {
    "Accept": ", ".join(
        f"application/vnd.{kind}+json"
        for kind in (
            "docker.distribution.manifest.list.v2",
            "oci.image.index.v1",
            "docker.distribution.manifest.v2",
            "oci.image.manifest.v1",
        )
    )
}
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')
_REFUSED = (401, 403)


class Answer(t.NamedTuple):
    """The answer of a server. If the status is 0, the server did not answer, and the body contains the reason."""

    status: int
    challenge: str = ""
    body: str = ""


def cause(image: Reference, logins: Sequence[Login], ask: Ask, scheme: str = "https") -> str:
    """Return why the registry does not provide an image, or an empty string if it does or the cause is unknown."""
    url = f"{scheme}://{image.registry}/v2/{image.name}/manifests/{image.version}"
    answer = ask("HEAD", url, _KINDS)
    if answer.status != 401 or not answer.challenge:
        return _verdict(image, answer, None)
    kind, _space, rest = answer.challenge.partition(" ")
    fields = dict(_PARAMETER.findall(rest))
    realm = fields.pop("realm", "")
    bearer = kind.lower() == "bearer"
    login = _login(image, logins, urlsplit(realm).hostname if bearer else "")
    if login and login.password.startswith("$("):
        return ""  # a command, which only enroot runs
    proof = {"Authorization": f"Basic {_basic(login)}"} if login else {}
    if bearer:
        granted = ask("GET", f"{realm}?{urlencode(fields)}", proof)
        if granted.status != 200:
            return _verdict(image, granted, login, urlsplit(realm).netloc)
        proof = {"Authorization": f"Bearer {_token(granted.body)}"}
    return _verdict(image, ask("HEAD", url, {**_KINDS, **proof}) if proof else answer, login)


def _verdict(image: Reference, answer: Answer, login: Login | None, server: str = "") -> str:
    server = server or image.registry
    if not answer.status:
        return f"{server} cannot be reached: {answer.body}"
    if answer.status == 404:
        return f"{image.registry} has no {image.version} of {image.name}: no such tag, or no such image"
    if answer.status in _REFUSED and login:
        return f"{server} refused the login {login.login} for {image.name}"
    if answer.status in _REFUSED:
        return f"{server} refused the login: none is known for it, and {image.name} wants one or does not exist"
    return "" if answer.status < 400 else f"{server} answered with HTTP status {answer.status}"


def _login(image: Reference, logins: Sequence[Login], realm: str | None) -> Login | None:
    """Return the login that enroot uses: the login of the named user, otherwise the first of the registry."""
    host = image.registry.partition(":")[0]
    users = [image.user] if image.user else [one.login for one in logins if one.machine == host][:1]
    machines = (realm, host) if realm else (host,)
    found = (one for machine in machines for one in logins if one.machine == machine and one.login in users)
    return next(found, None)


def _basic(login: Login) -> str:
    return base64.b64encode(f"{login.login}:{login.password}".encode()).decode()


def _token(body: str) -> str:
    try:
        data = json.loads(body)
        return str(data.get("token") or data.get("access_token") or "")
    except (ValueError, AttributeError):
        return ""
