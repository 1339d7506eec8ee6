# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Ask the metadata service of the machine and Azure Resource Manager, with the managed identity of the machine."""

from __future__ import annotations

import email.utils
import json
import typing as t
import urllib.error
import urllib.parse
import urllib.request

from .plan import ExpiryError

if t.TYPE_CHECKING:
    from .plan import Settings

    Body = dict[str, t.Any]

_SECONDS = 30
_GROUPS = "2021-04-01"
_MOST = 16 * 1024 * 1024


class RefusedError(ExpiryError):
    """Azure answered with an error; the attribute status is its number."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Answer(t.NamedTuple):
    """The body of an answer, and the time of the server in seconds since 1970."""

    body: Body
    now: float | None


class Azure:
    """Requests for one resource group."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._token = ""
        # The metadata service is never behind a proxy.
        self._local = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._remote = urllib.request.build_opener(_NoRedirect())

    def check_place(self) -> None:
        """Refuse to act on another resource group than that of this machine."""
        found = self._metadata("/metadata/instance", {"api-version": "2021-02-01"}).get("compute") or {}
        wanted = (self._settings.subscription_id.lower(), self._settings.resource_group.lower())
        here = (str(found.get("subscriptionId")).lower(), str(found.get("resourceGroupName")).lower())
        if here != wanted:
            raise ExpiryError(
                f"this machine is in the resource group {'/'.join(here)}, but the configuration names"
                f" {'/'.join(wanted)}"
            )

    def group(self) -> Answer | None:
        """Return the resource group with its tags, or None if it is gone."""
        try:
            return self._ask("GET", self._settings.group)
        except RefusedError as exc:
            if exc.status != 404:
                raise
            return None

    def foreign(self) -> list[str]:
        """Return the resources of the group that are not of the cluster."""
        found: list[Body] = []
        path: str | None = f"{self._settings.group}/resources"
        while path:
            body = self._ask("GET", path).body
            found += [one for one in body.get("value") or [] if isinstance(one, dict)]
            path = body.get("nextLink")
        ours = [f"{one.get('id')}/".lower() for one in found if self._is_ours(one)]
        # An extension of a machine has the ID of the machine at its beginning, and no tags.
        return [str(one.get("id")) for one in found if not f"{one.get('id')}/".lower().startswith(tuple(ours))]

    def set_tag(self, name: str, value: str) -> None:
        """Set one tag of the group, and leave the others."""
        body = {"operation": "Merge", "properties": {"tags": {name: value}}}
        self._ask("PATCH", f"{self._settings.group}/providers/Microsoft.Resources/tags/default", body)

    def delete(self) -> None:
        """Start the deletion of the group, which Azure completes without this machine."""
        self._ask("DELETE", self._settings.group)

    def _is_ours(self, resource: Body) -> bool:
        """Return whether a resource has the tag of the cluster, or belongs to a machine of the group, as its disk."""
        tags = {str(key).lower(): str(value) for key, value in (resource.get("tags") or {}).items()}
        owner = str(resource.get("managedBy") or "").lower()
        return tags.get("gpucluster_cluster") == self._settings.cluster or owner.startswith(
            f"{self._settings.group.lower()}/"
        )

    def _metadata(self, path: str, query: dict[str, str]) -> Body:
        url = f"{self._settings.metadata}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"Metadata": "true"})  # noqa: S310
        return self._sent(self._local, request, f"GET {path}").body

    def _sign_in(self) -> str:
        query = {"api-version": "2018-02-01", "resource": f"{self._settings.resource_manager}/"}
        if self._settings.client_id:
            query["client_id"] = self._settings.client_id
        token = self._metadata("/metadata/identity/oauth2/token", query).get("access_token")
        if not token:
            raise ExpiryError("the metadata service returned no token; does this machine have a managed identity?")
        return str(token)

    def _ask(self, method: str, path: str, body: Body | None = None) -> Answer:
        home = self._settings.resource_manager
        url = path if path.startswith(f"{home}/") else f"{home}{path}?api-version={_GROUPS}"
        if not path.startswith(("/", f"{home}/")):
            raise ExpiryError(f"Azure names a next page that is not below {home}")
        self._token = self._token or self._sign_in()
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, data=data, method=method, headers=headers)  # noqa: S310
        return self._sent(self._remote, request, f"{method} {urllib.parse.urlsplit(url).path}")

    def _sent(self, opener: urllib.request.OpenerDirector, request: urllib.request.Request, what: str) -> Answer:
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                return Answer(_decoded(answer.read(_MOST)), _clock(answer.headers.get("Date")))
        except urllib.error.HTTPError as exc:
            raise RefusedError(f"{what}: {exc.code} {_reason(exc)}", exc.code) from None
        except (OSError, ValueError) as exc:
            raise ExpiryError(f"{what}: no answer: {exc}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token must not follow a redirect."""

    def redirect_request(self, *_args: t.Any, **_more: t.Any) -> None:
        """Follow no redirect."""


def _decoded(content: bytes) -> Body:
    found = json.loads(content) if content.strip() else {}
    if not isinstance(found, dict):
        raise ValueError("the answer is no mapping")
    return found


def _clock(date: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date or "").timestamp()
    except (TypeError, ValueError, IndexError):
        return None


def _reason(exc: urllib.error.HTTPError) -> str:
    try:
        error = _decoded(exc.read(_MOST))
        error = error["error"] if isinstance(error.get("error"), dict) else error
        text = f"{error.get('code', '')}: {error.get('message') or error.get('error_description', '')}"
    except (OSError, ValueError):
        text = exc.reason
    if exc.code == 403:
        text += " (the identity of the controller needs the role Contributor on the resource group)"
    return " ".join(str(text).split())[:500]
