# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the reasons of an error of Azure, which nests them, and say them with what to do. Pure functions."""

from __future__ import annotations

import itertools
import json
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# What to do, by code in lower case. The message of Azure itself comes first.
ADVICE = {
    "skunotavailable": "choose another VM size, location or zone, or ask for access to this size",
    "quotaexceeded": "ask for more quota of this family in this region, or take fewer or smaller machines",
    "allocationfailed": "Azure has no free machines of this size now; try later, take fewer, or reserve capacity",
    "zonalallocationfailed": "Azure has no free machines of this size in this zone now; try another zone or later",
    "overconstrainedallocationrequest": "no place fits all constraints; take fewer machines or no proximity group",
    "overconstrainedzonalallocationrequest": "no place fits all constraints; try another zone or take fewer machines",
    "requestdisallowedbypolicy": "a policy of the subscription forbids it; ask its owner for an exemption",
    "authorizationfailed": "assign the identity a role with this action; Contributor with Role Based Access Control "
    "Administrator is sufficient, except for roleDefinitions: these need Owner or User Access Administrator, "
    "or controller_role: none in azure_cluster.identity",
    "roledefinitiondoesnotexist": "the new role is not known everywhere yet; run again in a minute",
    "linkedauthorizationfailed": "assign the identity a role with this action on the other resource too",
    "expiredtoken": "sign in again",
    "expiredauthenticationtoken": "sign in again",
    "invalidauthenticationtoken": "sign in again",
    "resourcegroupnotfound": "somebody deleted the resource group; run again to make everything anew",
    "resourcegroupbeingdeleted": "wait until the resource group is gone, and run again",
    "principalnotfound": "the new identity is not known everywhere yet; run again in a minute",
    "missingsubscriptionregistration": "register the resource provider: az provider register --namespace NAME",
    "marketplacepurchaseeligibilityfailed": "accept the terms of the image: az vm image terms accept --urn URN",
}
# Kinds for which Azure has no machines here and now.
NO_CAPACITY = frozenset(
    {
        "allocationfailed",
        "zonalallocationfailed",
        "overconstrainedallocationrequest",
        "overconstrainedzonalallocationrequest",
    }
)
# Kinds for which a repeated request gets no machines either.
NO_MACHINES = NO_CAPACITY | {"skunotavailable", "quotaexceeded"}

_QUOTA = re.compile(
    r"exceeding approved (?P<name>.+?)(?: Cores)? quota.*?Location: (?P<location>[^,]+), "
    r"Current Limit: (?P<limit>\d+), Current Usage: (?P<used>\d+), Additional Required: (?P<more>\d+)",
    re.IGNORECASE | re.DOTALL,
)
# Azure wraps these in other codes, and then only the text has them: a code as a word, or its usual sentence.
_NAMED = re.compile(rf"\b({'|'.join(sorted(NO_MACHINES, key=len, reverse=True))})\b", re.IGNORECASE)
_SKU = re.compile(
    r"\b(?<!disk )(?:size|sku|tier)s?\b[^,;]{0,200}?\bnot (?:currently )?(?:available|offered|valid|supported in)\b"
    r"|\bcapacity restrictions\b|azureskunotavailable",
    re.IGNORECASE | re.DOTALL,
)
# The preflight of a deployment checks rights too, and answers InvalidTemplateDeployment with this text: "Preflight
# validation", https://learn.microsoft.com/azure/azure-resource-manager/bicep/deploy-preflight. Logs show the text.
_FORBIDDEN = re.compile(r"\bdoes not have (?:permission|authorization) to perform action\b", re.IGNORECASE)
_ANY_QUOTA = re.compile(r"\bquotas?\b", re.IGNORECASE)
_CAPACITY = re.compile(
    r"\b(?:sufficient|insufficient|enough|no|lack of|out of) capacity\b|\ballocation failed\b|\bunable to allocate\b",
    re.IGNORECASE,
)
_MACHINE = re.compile(r"\b(?:VMs?|VM\(s\)|machines?|instances?|sizes?)\b", re.IGNORECASE)
# A code about another resource than machines means what it says.
_OTHER = re.compile(r"disk|image|network|password|publicip|share|storage|subnet", re.IGNORECASE)
_UNNAMED, _SILENT = "Error", "no explanation"
_QUOTES = 20  # places in a message that may begin JSON


class Cause(t.NamedTuple):
    """One reason of a refusal; target is the resource that it is about, or empty."""

    code: str
    message: str
    target: str = ""

    @property
    def kind(self) -> str:
        """Return the code in lower case: that of the text if it says more than the code itself."""
        code = self.code.lower()
        return code if code in ADVICE or _OTHER.search(code) else _kind_of_text(self.message) or code


def _kind_of_text(text: str) -> str:
    if _FORBIDDEN.search(text):
        return "authorizationfailed"
    named = _NAMED.search(text)
    if named:
        return named[1].lower()
    if _SKU.search(text):
        return "skunotavailable"
    if _ANY_QUOTA.search(text):
        return "quotaexceeded"
    if not (_CAPACITY.search(text) and _MACHINE.search(text)):
        return ""
    zonal = "zonal" if re.search(r"\bzone", text, re.IGNORECASE) else ""
    return f"overconstrained{zonal}allocationrequest" if "constraint" in text.lower() else f"{zonal}allocationfailed"


def causes(error: t.Any, redact: Callable[[str], str] = str, depth: int = 9) -> list[Cause]:
    """
    Return the innermost reasons of an error, or of an answer with one.

    Azure nests them in error, details and innererror, and as JSON in a text.
    """
    if not isinstance(error, dict):
        return []
    details = error.get("details")
    inner = error.get("innererror")
    inside = [
        error.get("error"),
        *(details if isinstance(details, list) else []),
        inner,
        _quoted(error.get("message")),
    ]
    found = [cause for one in inside for cause in causes(one, redact, depth - 1)] if depth else []
    # The metadata service answers with two texts, or with one.
    told = error["error"] if isinstance(error.get("error"), str) else ""
    message = error.get("message") or error.get("error_description")
    code, message = error.get("code") or (told if message else ""), message or told
    # What is inside says more only if it names a reason: a stack trace or a number of a request names none.
    named = [one for one in found if one.kind in ADVICE or (one.code != _UNNAMED and one.message != _SILENT)]
    if named or (not code and (found or not message)):
        return list(dict.fromkeys(named or found))
    return [
        Cause(
            plain(code or _UNNAMED, redact, 100),
            plain(message or _SILENT, redact, 1000),
            plain(error.get("target") or "", redact, 300),
        )
    ]


def _quoted(message: t.Any) -> t.Any:
    """Return the first mapping that a message quotes as JSON, or None."""
    if not isinstance(message, str):
        return None
    for match in itertools.islice(re.finditer(r"\{(?=\s*\")", message), _QUOTES):
        try:
            return json.JSONDecoder().raw_decode(message, match.start())[0]
        except (ValueError, RecursionError):
            continue
    return None


def opened(content: bytes | str) -> t.Any:
    """Return an answer that is JSON, or None."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def explained(found: Sequence[Cause], advice: Mapping[str, str] | None = None) -> str:
    """Return reasons in one line, each with what to do; one of several resources names the first three."""
    places: dict[str, list[str]] = {}
    for one in found:
        places.setdefault(_said(one, ADVICE if advice is None else advice), []).append(_short(one.target))
    return "; ".join(_where(list(dict.fromkeys(filter(None, where)))) + text for text, where in places.items())


def _where(places: Sequence[str]) -> str:
    return f"{words.listed(places, 3)}: " if places else ""


def _said(cause: Cause, advice: Mapping[str, str]) -> str:
    quota = _QUOTA.search(cause.message)
    if quota:
        return _quota(quota)
    more = advice.get(cause.kind)
    text = cause.message.rstrip(". ")
    return f"{cause.code}: {text}" + (f"; {more}" if more else "")


def _quota(match: re.Match[str]) -> str:
    used, more, limit = (int(match[name]) for name in ("used", "more", "limit"))
    return (
        f"the quota {match['name']} in {match['location']} is too small: {more} more vCPUs are asked for, {used} are "
        f"in use, {limit} are allowed; ask for a quota of at least {used + more}, or take fewer or smaller machines"
    )


def _short(target: str) -> str:
    """Return type and name of a resource ID."""
    parts = target.rpartition("/providers/")[2].split("/")
    return f"{'/'.join([parts[0], *parts[1::2]])} {'/'.join(parts[2::2])}" if len(parts) > 2 else target


def plain(text: t.Any, redact: Callable[[str], str], limit: int) -> str:
    """Return an external message in one line, without secrets; secrets are removed before it is truncated."""
    return redact(" ".join(str(text).split()))[:limit]
